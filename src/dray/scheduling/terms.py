"""What a pod says of other pods, compiled: affinity, anti-affinity and spreading.

Terms are compared by content, so that counts kept for one pod serve all pods that say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from dray.api.objects import Object, bounded, strings
from dray.api.quantity import INT32_MAX
from dray.scheduling import selectors
from dray.scheduling.model import Needs


@dataclass(frozen=True, slots=True)
class Audience:
    """The pods that a term speaks of."""

    namespaces: frozenset[str]
    namespace_selector: bytes | None
    selector: bytes | None
    staying: bool = False
    """Whether pods that are being deleted do not count."""
    anchor: tuple[str, str] | None = None
    """A label that all of them have, where there is a single one by which to find them."""

    def includes(
        self, namespace: str, labels: Mapping[str, str], leaving: bool, namespaces: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Whether it speaks of a pod of that namespace with those labels; `namespaces` has their labels."""
        if leaving and self.staying:
            return False
        if namespace not in self.namespaces and not (
            self.namespace_selector is not None
            and selectors.matcher(self.namespace_selector)(namespaces.get(namespace) or {})
        ):
            return False
        return selectors.matcher(self.selector)(labels)


@dataclass(frozen=True, slots=True)
class Term:
    audience: Audience
    key: str
    """The node label whose value names the domain."""


@dataclass(frozen=True, slots=True)
class Constraint:
    audience: Audience
    key: str
    most_skew: int
    fewest_domains: int
    honour_affinity: bool
    """Whether nodes that the pod does not select are left out of account."""
    honour_taints: bool


@dataclass(frozen=True, eq=False, slots=True)
class Manners:
    near: tuple[Term, ...]
    """Each domain must have a pod that all of these speak of."""
    apart: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    """A negative weight is anti-affinity."""
    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]


NONE = Manners((), (), (), (), ())
# As long as there are pods that need it.
_known: WeakKeyDictionary[Needs, Manners] = WeakKeyDictionary()


def manners(needs: Needs) -> Manners:
    if not needs.social:
        return NONE
    found = _known.get(needs)
    if found is None:
        found = _known[needs] = _compiled(needs)
    return found


def _compiled(needs: Needs) -> Manners:
    return Manners(
        _terms(needs.affinity),
        _terms(needs.anti_affinity),
        tuple((weight, _term(term)) for weight, term in needs.preferred_affinity),
        tuple(_constraint(each) for each in needs.spread if each.get("whenUnsatisfiable") != "ScheduleAnyway"),
        tuple(_constraint(each) for each in needs.spread if each.get("whenUnsatisfiable") == "ScheduleAnyway"),
    )


def _terms(terms: Iterable[Object]) -> tuple[Term, ...]:
    return tuple(_term(term) for term in terms)


def _term(term: Object) -> Term:
    selector = selectors.text(term.get("labelSelector"))
    audience = Audience(
        frozenset(strings(term.get("namespaces"))),
        selectors.text(term.get("namespaceSelector")),
        selector,
        anchor=selectors.anchor(selector),
    )
    return Term(audience, str(term.get("topologyKey") or ""))


def _constraint(each: Object) -> Constraint:
    selector = selectors.text(each.get("labelSelector"))
    namespaces = frozenset(strings(each.get("namespaces")))
    audience = Audience(namespaces, None, selector, staying=True, anchor=selectors.anchor(selector))
    return Constraint(
        audience,
        str(each.get("topologyKey") or ""),
        _number(each.get("maxSkew")),
        _number(each.get("minDomains")),
        (each.get("nodeAffinityPolicy") or "Honor") == "Honor",
        each.get("nodeTaintsPolicy") == "Honor",
    )


def _number(value: Any) -> int:
    return bounded(value, 1, INT32_MAX, 1)
