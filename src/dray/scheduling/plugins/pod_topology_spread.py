"""PodTopologySpread: spreads pods over topology domains, by the constraints of the pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log
from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.pod_terms import SpreadConstraint
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Plugin, Skip
from dray.scheduling.plugins.taint_toleration import untolerated

_HOSTNAME: Final = "kubernetes.io/hostname"


class PodTopologySpread(Plugin):
    weight = 2
    skip_is_final = True

    def __init__(self, state: State) -> None:
        self._state = state

    def prefilter(self, cycle: Cycle) -> Skip | None:
        terms = cycle.pod.requirements.pod_terms
        if not terms.do_not_schedule:
            return SKIP
        cycle.data[self.name] = self._limits(cycle.pod, terms.do_not_schedule)
        return None

    def _limits(self, pod: Pod, constraints: Sequence[SpreadConstraint]) -> list[tuple[str, Mapping[str, int], int]]:
        """Returns for each constraint its key, the number of pods by domain, and the most pods with which a domain
        still accepts this pod."""
        keys = _keys(constraints)
        namespaces = self._state.affinity.namespaces
        limits: list[tuple[str, Mapping[str, int], int]] = []
        for constraint in constraints:
            domains = self._domains(pod, constraint, keys)
            least = min(domains.values()) if domains and len(domains) >= constraint.min_domains else 0
            itself = constraint.selector.includes(pod.key[0], pod.labels, False, namespaces)
            limits.append((constraint.topology_key, domains, constraint.max_skew + least - itself))
        return limits

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        limits: list[tuple[str, Mapping[str, int], int]] = cycle.data[self.name]
        for key, domains, limit in limits:
            if key not in node.labels:
                return _MISSING_LABEL
            if domains.get(node.labels[key], 0) > limit:
                return _SKEWED
        return None

    def prescore(self, cycle: Cycle) -> Skip | None:
        return None if cycle.pod.requirements.pod_terms.schedule_anyway else SKIP

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        """Returns higher scores for nodes with fewer pods in their domains. Scores depend on which nodes fit, so they
        are computed here and not in `score`."""
        constraints = cycle.pod.requirements.pod_terms.schedule_anyway
        keys = _keys(constraints)
        nodes = [node for number in scores if (node := self._state.numbered[number]) is not None]
        rated = [node for node in nodes if _has_all(node.labels, keys)]
        raw = {node.number: 0.0 for node in rated}
        for constraint in constraints:
            self._rate(cycle.pod, constraint, keys, rated, raw)
        rounded = {number: floor(score + 0.5) for number, score in raw.items()}
        most, least = max(rounded.values(), default=0), min(rounded.values(), default=0)
        normalized = dict.fromkeys(scores, 0)
        for number, score in rounded.items():
            normalized[number] = 100 * (most + least - score) // most if most else 100
        return normalized

    def _rate(
        self,
        pod: Pod,
        constraint: SpreadConstraint,
        keys: Sequence[str],
        nodes: Sequence[Node],
        raw: dict[int, float],
    ) -> None:
        key = constraint.topology_key
        if key == _HOSTNAME:
            counts = self._state.affinity.matched(constraint.selector).by_node
            pods = [counts.get(node, 0) for node in nodes]
            size = len(nodes)
        else:
            domains = self._domains(pod, constraint, keys)
            pods = [domains.get(node.labels[key], 0) for node in nodes]
            size = len({node.labels[key] for node in nodes})
        # Constraints with many small domains count as much as constraints with a few large domains.
        weight = log(size + 2)
        for node, count in zip(nodes, pods, strict=True):
            raw[node.number] += count * weight + (constraint.max_skew - 1)

    def _domains(self, pod: Pod, constraint: SpreadConstraint, keys: Sequence[str]) -> dict[str, int]:
        """The number of selected pods by domain, on the nodes that the constraint takes into account."""
        counts = self._state.affinity.matched(constraint.selector).by_node
        requirements, key = pod.requirements, constraint.topology_key
        selects = constraint.honors_node_affinity and bool(
            requirements.node_selector or requirements.node_affinity is not None
        )
        domains: dict[str, int] = {}
        for node in self._state:
            labels = node.labels
            if not _has_all(labels, keys) or (selects and not requirements.select(node.name, labels)):
                continue
            if constraint.honors_node_taints and node.taints and untolerated(self._state, pod, node):
                continue
            value = labels[key]
            domains[value] = domains.get(value, 0) + counts.get(node, 0)
        return domains


def _keys(constraints: Iterable[SpreadConstraint]) -> list[str]:
    return list(dict.fromkeys(constraint.topology_key for constraint in constraints))


def _has_all(labels: Mapping[str, str], keys: Iterable[str]) -> bool:
    for key in keys:
        if key not in labels:
            return False
    return True


_SKEWED: Final = Status.of(PodTopologySpread.name, Code.TOPOLOGY_SPREAD)
_MISSING_LABEL: Final = Status.of(PodTopologySpread.name, Code.TOPOLOGY_SPREAD_LABEL, resolvable=False)
