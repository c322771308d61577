"""Removals: who goes for pods that find no place. Those of lower priority, or as the front end of their queue says."""

from __future__ import annotations

from collections.abc import Sequence

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import PriorityRemovals
from dray.scheduling.quota.queue_policy import Ask, Removals
from dray.scheduling.quota.queues import Queues


def removals_for(queues: Queues, pods: Sequence[Pod], now: float) -> Removals:
    """For one pod, or those of a group that start together."""
    policy = queues.policy_of(pods[0])
    queue = policy.queue_of(pods[0]) if policy is not None else None
    if policy is not None and queue is not None:
        wanted = policy.charges.wanted(queue, pods)
        return policy.removals(Ask(tuple(pods), queue, wanted, policy.priority(pods[0]), now))
    return PriorityRemovals(pods[0].priority)
