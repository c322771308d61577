"""Pod terms: the affinity, anti-affinity and topology spread constraints of a pod, compiled.

Terms are compared by content, so that counts for a term serve all pods that have it. Label selectors are kept as JSON
text, which `matcher` compiles once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dray.api import label_selectors
from dray.api.caches import Cache
from dray.api.label_selectors import Matcher
from dray.api.objects import Object, bounded, mapping, mappings, strings
from dray.api.quantity import INT32_MAX

# A compiled selector is several times as large as its text.
_known: Final[Cache[bytes, Matcher]] = Cache(16_384, 4 << 20)
_encode = msgspec.json.Encoder(order="deterministic").encode


def selector_text(selector: Any) -> bytes | None:
    """The text of a label selector for `matcher`; None if there is no selector."""
    if not isinstance(selector, dict):
        return None
    members = {"matchLabels": mapping(selector.get("matchLabels"))}
    return _encode({**members, "matchExpressions": mappings(selector.get("matchExpressions"))})


def matcher(selector: bytes | None) -> Matcher:
    """The compiled label selector. A missing selector matches nothing, an empty one everything."""
    if selector is None:
        return label_selectors.nothing
    compiled = _known.get(selector)
    if compiled is None:
        compiled = label_selectors.from_object(msgspec.json.decode(selector))
        _known.put(selector, compiled, len(selector))
    return compiled


def required_label(selector: bytes | None) -> tuple[str, str] | None:
    """A label that all selected pods have; None if the selector requires no single value of a label."""
    if selector is None:
        return None
    decoded = msgspec.json.decode(selector)
    for key, value in decoded["matchLabels"].items():
        return key, value
    for expression in decoded["matchExpressions"]:
        match expression:
            case {"operator": "In", "key": str(key), "values": [str(value)]}:
                return key, value
    return None


@dataclass(frozen=True, slots=True)
class TermSelector:
    """Selects the pods that a term or constraint counts."""

    namespaces: frozenset[str]
    namespace_selector: bytes | None
    selector: bytes | None
    ignores_deleting: bool = False
    """Whether pods that are being deleted are not counted."""
    label: tuple[str, str] | None = None
    """A label that all selected pods have, used to find them; None if there is none."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], deleting: bool, namespaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Whether it selects a pod with that namespace and labels; `namespaces` are the labels of all namespaces."""
        if deleting and self.ignores_deleting:
            return False
        if namespace not in self.namespaces and not (
            self.namespace_selector is not None and matcher(self.namespace_selector)(namespaces.get(namespace) or {})
        ):
            return False
        return matcher(self.selector)(labels)


@dataclass(frozen=True, slots=True)
class Term:
    selector: TermSelector
    topology_key: str
    """The node label whose value identifies the domain."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    selector: TermSelector
    topology_key: str
    max_skew: int
    min_domains: int
    honors_node_affinity: bool
    """Whether only nodes that the pod selects are counted."""
    honors_node_taints: bool


@dataclass(frozen=True, eq=False, slots=True)
class PodTerms:
    affinity: tuple[Term, ...]
    """The domain of the node must have a pod that all of these terms select."""
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    """Terms with weights; a negative weight is anti-affinity."""
    do_not_schedule: tuple[SpreadConstraint, ...]
    schedule_anyway: tuple[SpreadConstraint, ...]

    @classmethod
    def of(
        cls,
        affinity: Iterable[Object],
        anti_affinity: Iterable[Object],
        preferred: Iterable[tuple[int, Object]],
        spread: Sequence[Object],
    ) -> PodTerms:
        """Compiles terms and constraints of a pod, after defaults from its own labels and namespace were filled in."""
        return cls(
            tuple(map(_term, affinity)),
            tuple(map(_term, anti_affinity)),
            tuple((weight, _term(term)) for weight, term in preferred),
            tuple(_constraint(item) for item in spread if item.get("whenUnsatisfiable") != "ScheduleAnyway"),
            tuple(_constraint(item) for item in spread if item.get("whenUnsatisfiable") == "ScheduleAnyway"),
        )

    def __bool__(self) -> bool:
        own = self.affinity or self.anti_affinity or self.preferred
        return bool(own or self.do_not_schedule or self.schedule_anyway)


def _term(term: Object) -> Term:
    labels = selector_text(term.get("labelSelector"))
    selector = TermSelector(
        frozenset(strings(term.get("namespaces"))),
        selector_text(term.get("namespaceSelector")),
        labels,
        label=required_label(labels),
    )
    return Term(selector, str(term.get("topologyKey") or ""))


def _constraint(constraint: Object) -> SpreadConstraint:
    labels = selector_text(constraint.get("labelSelector"))
    namespaces = frozenset(strings(constraint.get("namespaces")))
    selector = TermSelector(namespaces, None, labels, ignores_deleting=True, label=required_label(labels))
    return SpreadConstraint(
        selector,
        str(constraint.get("topologyKey") or ""),
        _number(constraint.get("maxSkew")),
        _number(constraint.get("minDomains")),
        (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
        constraint.get("nodeTaintsPolicy") == "Honor",
    )


def _number(value: Any) -> int:
    return bounded(value, 1, INT32_MAX, 1)
