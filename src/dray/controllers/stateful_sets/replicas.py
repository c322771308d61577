"""A snapshot of a StatefulSet and its pods, from which everything else is decided.

Nothing here or in the plan goes through all ordinals that the spec asks for: there may be two billion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dray.api.int_or_percent import scaled
from dray.api.objects import Object, is_deleting, is_true, labels_of, mapping, status_of
from dray.api.pods import phase_of
from dray.controllers.stateful_sets import identity
from dray.controllers.workloads.availability import is_available
from dray.controllers.workloads.revisions import HASH_LABEL


@dataclass(frozen=True)
class Replicas:
    stateful_set: Object
    current: str
    """Names of the current revision and, below, the update revision."""
    update: str
    pods: dict[int, Object]
    """Pods by ordinal."""
    now: datetime

    @classmethod
    def of(cls, stateful_set: Object, current: str, update: str, pods: Iterable[Object], now: datetime) -> Replicas:
        numbered = ((identity.ordinal(stateful_set, pod), pod) for pod in pods)
        return cls(stateful_set, current, update, {at: pod for at, pod in numbered if at is not None}, now)

    @property
    def wanted(self) -> range:
        """The wanted ordinals."""
        spec = self.stateful_set["spec"]
        start = int(mapping(spec.get("ordinals")).get("start") or 0)
        count = spec.get("replicas")
        return range(start, start + (1 if count is None else int(count)))

    @property
    def condemned(self) -> list[tuple[int, Object]]:
        """Returns the pods whose ordinals are not wanted, highest ordinal first."""
        return sorted(((at, pod) for at, pod in self.pods.items() if at not in self.wanted), reverse=True, key=_number)

    @property
    def is_ordered(self) -> bool:
        return bool(self.stateful_set["spec"].get("podManagementPolicy") != "Parallel")

    @property
    def min_ready(self) -> int:
        return int(self.stateful_set["spec"].get("minReadySeconds") or 0)

    @property
    def rolling(self) -> Object | None:
        """The bounds of a rolling update; None for other update strategies."""
        strategy = self._strategy
        return mapping(strategy.get("rollingUpdate")) if strategy.get("type") == "RollingUpdate" else None

    @property
    def recreates(self) -> bool:
        """Whether all old pods must have gone before the first new one comes."""
        return bool(self._strategy.get("type") == "Recreate")

    @property
    def _strategy(self) -> Object:
        return mapping(self.stateful_set["spec"].get("updateStrategy"))

    @property
    def outdated(self) -> list[Object]:
        return [pod for pod in self.pods.values() if not self.is_updated(pod)]

    @property
    def first_updated(self) -> int:
        """Returns the lowest ordinal that is updated."""
        return self.wanted.start + int((self.rolling or {}).get("partition") or 0)

    @property
    def max_unavailable(self) -> int:
        bound = (self.rolling or {}).get("maxUnavailable")
        return max(1, scaled(1 if bound is None else bound, len(self.wanted), up=False))

    def revision_for(self, number: int) -> str:
        """Returns the revision for the pod with this ordinal."""
        if self.rolling is None:
            return self.update
        if "partition" in self.rolling:
            return self.current if number < self.first_updated else self.update
        kept = int(status_of(self.stateful_set).get("currentReplicas") or 0)
        return self.current if number < self.wanted.start + kept else self.update

    def is_updated(self, pod: Object) -> bool:
        return revision_of(pod) == self.update

    def is_available(self, pod: Object) -> bool:
        return is_running_and_ready(pod) and is_available(pod, self.min_ready, self.now)

    def is_healthy(self, pod: Object) -> bool:
        return self.is_available(pod) and not is_deleting(pod)


def revision_of(pod: Object) -> str:
    return labels_of(pod).get(HASH_LABEL, "")


def is_running_and_ready(pod: Object) -> bool:
    return phase_of(pod) == "Running" and is_true(pod, "Ready")


def _number(item: tuple[int, Object]) -> int:
    return item[0]
