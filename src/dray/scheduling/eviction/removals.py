"""Removals: which pods are evicted for pods that find no place: as their queue system decides, or by priority."""

from __future__ import annotations

from collections.abc import Sequence

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import PriorityRemovals
from dray.scheduling.quota.queue_policy import Ask, Removals
from dray.scheduling.quota.queues import Queues


def removals_for(queues: Queues, pods: Sequence[Pod], now: float) -> Removals:
    """For one pod, or those of a group that start together."""
    member = queues.member(pods[0])
    if member is not None:
        policy, queue, priority = member
        return policy.evictions(Ask(tuple(pods), queue, policy.charges.wanted(queue, pods), priority, now)).removals()
    return PriorityRemovals(pods[0].priority)
