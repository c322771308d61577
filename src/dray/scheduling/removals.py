"""Removals: who goes for pods that find no place. Those of lower priority, or as the front end of their queue says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from dray.scheduling.model import Pod, start_of
from dray.scheduling.queue_policy import Ask, Removals
from dray.scheduling.queues import Queues

Unit = tuple[Pod, ...]
"""Pods that are removed together: those of a group that wants it so, or a single one."""


class ByPriority:
    retry_at = inf
    hopeless = False

    def __init__(self, priority: int) -> None:
        self._priority = priority

    def may_go(self, pod: Pod) -> bool:
        return pod.priority < self._priority

    def legal(self, units: Iterable[Unit]) -> list[Unit]:
        return sorted(units, key=_importance)


def removals_for(queues: Queues, pods: Sequence[Pod], now: float) -> Removals:
    """For one pod, or those of a group that start together."""
    policy = queues.policy_of(pods[0])
    queue = policy.queue_of(pods[0]) if policy is not None else None
    if policy is not None and queue is not None:
        wanted = policy.charges.wanted(queue, pods)
        found = policy.removals(Ask(tuple(pods), queue, wanted, policy.priority(pods[0]), now))
        if found is not None:
            return found
    return ByPriority(pods[0].priority)


def _importance(unit: Unit) -> tuple[int, int, str]:
    """In ascending order the most important first: by priority, then by number, then who has been running longest."""
    return -max(each.priority for each in unit), -len(unit), min(map(start_of, unit))
