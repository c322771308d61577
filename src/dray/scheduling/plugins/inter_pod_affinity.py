"""InterPodAffinity: affinity and anti-affinity to other pods, by the pod's own terms and by those of existing pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dray.scheduling.cluster.affinity_index import FORBIDS, AffinityIndex
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.pod_terms import PodTerms
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Plugin, Skip

Domains = Mapping[str, int]


class InterPodAffinity(Plugin):
    weight = 2

    def __init__(self, state: State) -> None:
        self._index = state.affinity

    def prefilter(self, cycle: Cycle) -> Skip | None:
        pod = cycle.pod
        own = pod.requirements.pod_terms
        if not (own.affinity or own.anti_affinity or own.preferred or self._index.selects(pod)):
            # The only pods with terms may have been evicted in a trial.
            cycle.data.pop(self.name, None)
            return SKIP
        cycle.data[self.name] = _PodAffinity(self._index, pod, own)
        return None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        rules: _PodAffinity | None = cycle.data.get(self.name)
        return rules.filter(node.labels) if rules is not None else None

    def prescore(self, cycle: Cycle) -> Skip | None:
        return SKIP if self.name in cycle.skipped else None

    def score(self, cycle: Cycle, node: Node) -> int:
        rules: _PodAffinity | None = cycle.data.get(self.name)
        return rules.score(node.labels) if rules is not None else 0

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        if not scores:
            return {}
        least = min(scores.values())
        width = max(scores.values()) - least
        return {number: int(100 * ((score - least) / width)) for number, score in scores.items()} if width else {}


class _PodAffinity:
    """The domains that the terms of one pod, and of existing pods, allow, forbid or prefer; valid for one attempt."""

    def __init__(self, index: AffinityIndex, pod: Pod, own: PodTerms) -> None:
        self._index = index
        self._own = own
        existing = index.existing_terms(pod)
        self._forbidden = _values((key, counts.domains(key)) for weight, key, counts in existing if weight == FORBIDS)
        self._existing = [(weight, key, counts.domains(key)) for weight, key, counts in existing if weight != FORBIDS]
        self._anti_affinity = _values(
            (term.topology_key, index.matched(term.selector).domains(term.topology_key)) for term in own.anti_affinity
        )
        self._affinity, self._first = self._find_affinity(pod)
        self._preferences: dict[str, dict[str, int]] | None = None

    def _find_affinity(self, pod: Pod) -> tuple[list[tuple[str, Domains]], bool]:
        """The domains of the pods that all affinity terms select, and whether this pod may be the first such pod."""
        terms = self._own.affinity
        if not terms:
            return [], False
        matched = self._index.matched(*(term.selector for term in terms))
        domains = [(key, matched.domains(key)) for key in dict.fromkeys(term.topology_key for term in terms)]
        is_first = not any(counts for _, counts in domains)
        namespaces = self._index.namespaces
        return domains, is_first and all(
            term.selector.includes(pod.key[0], pod.labels, False, namespaces) for term in terms
        )

    def filter(self, labels: Mapping[str, str]) -> Status | None:
        for key, domains in self._affinity:
            value = labels.get(key)
            if value is None or not (self._first or value in domains):
                return _AFFINITY
        if _has(self._anti_affinity, labels):
            return _ANTI_AFFINITY
        return _EXISTING if _has(self._forbidden, labels) else None

    def score(self, labels: Mapping[str, str]) -> int:
        if self._preferences is None:
            self._preferences = self._find_preferences()
        return sum(sums.get(labels[key], 0) for key, sums in self._preferences.items() if key in labels)

    def _find_preferences(self) -> dict[str, dict[str, int]]:
        own = [
            (weight, term.topology_key, self._index.matched(term.selector).domains(term.topology_key))
            for weight, term in self._own.preferred
        ]
        by_key: dict[str, dict[str, int]] = {}
        for weight, key, domains in (*own, *self._existing):
            sums = by_key.setdefault(key, {})
            for value, count in domains.items():
                sums[value] = sums.get(value, 0) + weight * count
        return by_key


def _values(domains: Iterable[tuple[str, Domains]]) -> dict[str, set[str]]:
    """The values of all domains by topology key, so that each key is looked up once for a node."""
    by_key: dict[str, set[str]] = {}
    for key, values in domains:
        if values:
            by_key.setdefault(key, set()).update(values)
    return by_key


def _has(domains: Mapping[str, set[str]], labels: Mapping[str, str]) -> bool:
    for key, values in domains.items():
        if labels.get(key) in values:
            return True
    return False


_AFFINITY: Final = Status.of(InterPodAffinity.name, Code.POD_AFFINITY, resolvable=False)
_ANTI_AFFINITY: Final = Status.of(InterPodAffinity.name, Code.POD_ANTI_AFFINITY)
_EXISTING: Final = Status.of(InterPodAffinity.name, Code.EXISTING_POD_ANTI_AFFINITY)
