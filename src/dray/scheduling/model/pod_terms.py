"""Pod terms: the affinity, anti-affinity and topology spread of a pod, compiled.

Terms are compared by content, so that counts kept for one pod serve all pods with the same terms. Their label
selectors are kept as text, of which `matcher` makes a function once.
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

# What is made of a selector is several times as large as its text.
_known: Final[Cache[bytes, Matcher]] = Cache(16_384, 4 << 20)
_encode = msgspec.json.Encoder(order="deterministic").encode


def selector_text(selector: Any) -> bytes | None:
    """What `matcher` takes. None for a selector that is absent."""
    if not isinstance(selector, dict):
        return None
    members = {"matchLabels": mapping(selector.get("matchLabels"))}
    return _encode({**members, "matchExpressions": mappings(selector.get("matchExpressions"))})


def matcher(selector: bytes | None) -> Matcher:
    """An absent selector matches nothing, an empty one everything."""
    if selector is None:
        return label_selectors.nothing
    found = _known.get(selector)
    if found is None:
        found = label_selectors.from_object(msgspec.json.decode(selector))
        _known.put(selector, found, len(selector))
    return found


def required_label(selector: bytes | None) -> tuple[str, str] | None:
    """A label that whatever it matches must have; None where there is no single one."""
    if selector is None:
        return None
    found = msgspec.json.decode(selector)
    for key, value in found["matchLabels"].items():
        return key, value
    for each in found["matchExpressions"]:
        match each:
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
    """Whether pods that are being deleted do not count."""
    label: tuple[str, str] | None = None
    """A label that all of them have, where there is a single one by which to find them."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], deleting: bool, namespaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Whether it selects a pod of that namespace with those labels; `namespaces` has their labels."""
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
    """The node label whose value names the domain."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    selector: TermSelector
    topology_key: str
    max_skew: int
    min_domains: int
    honors_node_affinity: bool
    """Whether nodes that the pod does not select are left out of account."""
    honors_node_taints: bool


@dataclass(frozen=True, eq=False, slots=True)
class PodTerms:
    affinity: tuple[Term, ...]
    """Each domain must have a pod that all of these select."""
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    """A negative weight is anti-affinity."""
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
        """Terms and constraints as they stand in a pod, with the pod's own labels and namespace filled in."""
        return cls(
            tuple(map(_term, affinity)),
            tuple(map(_term, anti_affinity)),
            tuple((weight, _term(term)) for weight, term in preferred),
            tuple(_constraint(each) for each in spread if each.get("whenUnsatisfiable") != "ScheduleAnyway"),
            tuple(_constraint(each) for each in spread if each.get("whenUnsatisfiable") == "ScheduleAnyway"),
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


def _constraint(each: Object) -> SpreadConstraint:
    labels = selector_text(each.get("labelSelector"))
    namespaces = frozenset(strings(each.get("namespaces")))
    selector = TermSelector(namespaces, None, labels, ignores_deleting=True, label=required_label(labels))
    return SpreadConstraint(
        selector,
        str(each.get("topologyKey") or ""),
        _number(each.get("maxSkew")),
        _number(each.get("minDomains")),
        (each.get("nodeAffinityPolicy") or "Honor") == "Honor",
        each.get("nodeTaintsPolicy") == "Honor",
    )


def _number(value: Any) -> int:
    return bounded(value, 1, INT32_MAX, 1)
