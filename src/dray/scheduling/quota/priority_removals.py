"""PriorityRemovals: pods of lower priority are evicted for pods that find no place, and none for quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, Removals, RunningUnit

Unit = tuple[Pod, ...]
"""Pods that are removed together: those of a group that wants it so, or a single one."""


class PriorityRemovals:
    retry_at = inf
    hopeless = False

    def __init__(self, priority: int) -> None:
        self._priority = priority

    def may_go(self, pod: Pod) -> bool:
        return pod.priority < self._priority

    def legal(self, units: Iterable[Unit]) -> list[Unit]:
        return sorted(units, key=_importance)

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return False


def _importance(unit: Unit) -> tuple[int, int, str]:
    """In ascending order the most important first: by priority, then by number, then who has been running longest."""
    return -max(each.priority for each in unit), -len(unit), min(map(start_of, unit))


class PriorityEvictions:
    """Evicts pods of lower priority for a place, and no pod for quota: what a queue system may start from."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def removals(self) -> Removals:
        return PriorityRemovals(self._ask.pod.priority)

    def may_reclaim(self) -> bool:
        return False

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        return None

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        return False

    def is_hopeful(self) -> bool:
        return True

    def has_room(self, reserved: Mapping[Asset, int]) -> bool:
        return True
