"""PriorityRemovals: those of lower priority go for pods that find no place."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from dray.scheduling.model.pod import Pod, start_of

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
