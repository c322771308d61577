"""What the pods that are there mean for one pod: where it may not go, and where it would rather be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import floor, log
from typing import Final

from dray.scheduling.fit import selects
from dray.scheduling.model import Needs, Node, Pod
from dray.scheduling.tallies import Sample, Tally
from dray.scheduling.terms import Audience, Constraint, Manners, Term
from dray.scheduling.tolerations import repelled

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
UNWELCOME: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN: Final = "node(s) didn't match pod topology spread constraints (missing required label)"

UNRESOLVABLE: Final = frozenset({NOT_NEAR, NO_DOMAIN})
"""What stays in the way whichever pods leave the node."""

_WEIGHT: Final = 2
_HOSTNAME: Final = "kubernetes.io/hostname"

FORBIDS: Final = 0
"""The weight under which required anti-affinity is held."""

Concerns = tuple[tuple[int, str, Tally], ...]
"""(weight, key, who holds it) of the terms of other pods that speak of this one."""
Ask = Callable[[tuple[Audience, ...]], Sample]
Domains = Mapping[str, int]


class Judgement:
    def __init__(
        self,
        pod: Pod,
        own: Manners,
        nodes: Iterable[Node],
        ask: Ask,
        concerns: Concerns,
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._own = own
        self._namespaces = namespaces
        self._ask = ask
        self._needs = pod.needs
        self._nodes = list(nodes) if own.hard or own.soft else []
        self._unwelcome = _together((key, tally.domains(key)) for weight, key, tally in concerns if weight == FORBIDS)
        self._liked = [(weight, key, tally.domains(key)) for weight, key, tally in concerns if weight != FORBIDS]
        self._apart = _together((term.key, ask((term.audience,)).domains(term.key)) for term in own.apart)
        self._near, self._first = self._nearness(pod)
        self._limits = self._spread(pod)

    def obstacle(self, node: Node) -> str | None:
        """The first in the order of Kubernetes' filters."""
        labels = node.labels
        for key, domains, limit in self._limits:
            if key not in labels:
                return NO_DOMAIN
            if domains.get(labels[key], 0) > limit:
                return SKEWED
        if self._near and not self._is_near(labels):
            return NOT_NEAR
        if _has(self._apart, labels):
            return NOT_APART
        if _has(self._unwelcome, labels):
            return UNWELCOME
        return None

    def scores(self, nodes: Collection[Node]) -> dict[int, int]:
        """By number, for the nodes that could take the pod; empty where they are all alike."""
        total: dict[int, int] = {}
        for part in (self._attraction(nodes), self._evenness(nodes)):
            for number, score in part.items():
                total[number] = total.get(number, 0) + _WEIGHT * score
        return total

    def _speaks_of(self, term: Term | Constraint, pod: Pod) -> bool:
        return term.audience.includes(pod.key[0], pod.labels, False, self._namespaces)

    # Affinity

    def _nearness(self, pod: Pod) -> tuple[list[tuple[str, Domains]], bool]:
        """Where the pods are that all terms speak of, and whether this pod may be the first of them."""
        near = self._own.near
        if not near:
            return [], False
        sample = self._ask(tuple(term.audience for term in near))
        domains = [(key, sample.domains(key)) for key in dict.fromkeys(term.key for term in near)]
        return domains, not any(found for _, found in domains) and all(self._speaks_of(term, pod) for term in near)

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        for key, domains in self._near:
            value = labels.get(key)
            if value is None or not (self._first or value in domains):
                return False
        return True

    def _attraction(self, nodes: Collection[Node]) -> dict[int, int]:
        own = [
            (weight, term.key, self._ask((term.audience,)).domains(term.key)) for weight, term in self._own.preferred
        ]
        by_key: dict[str, dict[str, int]] = {}
        for weight, key, domains in (*own, *self._liked):
            sums = by_key.setdefault(key, {})
            for value, count in domains.items():
                sums[value] = sums.get(value, 0) + weight * count
        if not any(by_key.values()) or not nodes:
            return {}
        raw = {
            node.number: sum(sums.get(node.labels[key], 0) for key, sums in by_key.items() if key in node.labels)
            for node in nodes
        }
        least = min(raw.values())
        width = max(raw.values()) - least
        return {number: int(100 * ((score - least) / width)) for number, score in raw.items()} if width else {}

    # Spreading

    def _spread(self, pod: Pod) -> list[tuple[str, Domains, int]]:
        """(key, pods by domain, the most that a domain may have to take one more)."""
        hard = self._own.hard
        keys = list(dict.fromkeys(constraint.key for constraint in hard))
        limits: list[tuple[str, Domains, int]] = []
        for constraint in hard:
            domains = self._eligible(constraint, keys)
            least = min(domains.values()) if domains and len(domains) >= constraint.fewest_domains else 0
            limits.append((constraint.key, domains, constraint.most_skew + least - self._speaks_of(constraint, pod)))
        return limits

    def _eligible(self, constraint: Constraint, keys: Sequence[str]) -> dict[str, int]:
        """Pods by domain, on the nodes that count."""
        counts = self._ask((constraint.audience,)).by_node
        needs, key = self._needs, constraint.key
        choosy = constraint.honour_affinity and bool(needs.selector or needs.required is not None)
        domains: dict[str, int] = {}
        for node in self._nodes:
            labels = node.labels
            if not _has_all(labels, keys) or (choosy and not selects(needs, node.name, labels)):
                continue
            if constraint.honour_taints and _is_repelled(needs, node):
                continue
            value = labels[key]
            domains[value] = domains.get(value, 0) + counts.get(node, 0)
        return domains

    def _evenness(self, nodes: Collection[Node]) -> dict[int, int]:
        soft = self._own.soft
        if not soft:
            return {}
        keys = list(dict.fromkeys(constraint.key for constraint in soft))
        rated = [node for node in nodes if _has_all(node.labels, keys)]
        raw = {node.number: 0.0 for node in rated}
        for constraint in soft:
            self._rate(constraint, keys, rated, raw)
        rounded = {number: floor(score + 0.5) for number, score in raw.items()}
        most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
        scores = {node.number: 0 for node in nodes}
        for number, score in rounded.items():
            scores[number] = 100 * (most + least - score) // most if most else 100
        return scores

    def _rate(self, constraint: Constraint, keys: Sequence[str], nodes: Sequence[Node], raw: dict[int, float]) -> None:
        key = constraint.key
        if key == _HOSTNAME:
            counts = self._ask((constraint.audience,)).by_node
            pods = [counts.get(node, 0) for node in nodes]
            size = len(nodes)
        else:
            domains = self._eligible(constraint, keys)
            pods = [domains.get(node.labels[key], 0) for node in nodes]
            size = len({node.labels[key] for node in nodes})
        # So that many small domains weigh as much as a few large ones.
        weight = log(size + 2)
        for node, count in zip(nodes, pods, strict=True):
            raw[node.number] += count * weight + (constraint.most_skew - 1)


def _together(domains: Iterable[tuple[str, Domains]]) -> dict[str, set[str]]:
    """The values of all of them by key, so that a node is asked once for each key."""
    found: dict[str, set[str]] = {}
    for key, values in domains:
        if values:
            found.setdefault(key, set()).update(values)
    return found


def _has(domains: Mapping[str, set[str]], labels: Mapping[str, str]) -> bool:
    for key, found in domains.items():
        if labels.get(key) in found:
            return True
    return False


def _has_all(labels: Mapping[str, str], keys: Iterable[str]) -> bool:
    for key in keys:
        if key not in labels:
            return False
    return True


def _is_repelled(needs: Needs, node: Node) -> bool:
    return bool(node.taints) and repelled(node.taints, needs.tolerations)
