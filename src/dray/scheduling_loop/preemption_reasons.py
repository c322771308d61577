"""Why a pod is preempted, for its event and conditions: a queue reclaims quota, or the other pod is more important."""

from __future__ import annotations

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.queues import Queues


def preemption_reason(queues: Queues, preemptor: Pod, victim: Pod, *, reclaims: bool) -> str:
    """Returns the reason as the rest of a sentence; empty if neither quota nor priority explains the preemption.

    `reclaims` says whether the preemptor takes back what is due to its queue. Pods of the same queue are preempted by
    priority in any case.
    """
    memberships = queues.memberships(preemptor) if reclaims else []
    if memberships:
        policy, (own, priority) = memberships[0]
        other = queues.charged(victim).get(policy.label)
        if own and other and own != other:
            return f"queue {own} reclaims quota from queue {other}"
        # Queues may give pods other priorities than they have on nodes.
        in_queue = policy.member(victim)
        if in_queue is not None and priority == in_queue.priority:
            return f"same priority {priority}, and it is older"
        if in_queue is not None:
            return _by_priority(priority, in_queue.priority)
    return _by_priority(preemptor.priority, victim.priority)


def _by_priority(higher: int, lower: int) -> str:
    return f"priority {higher} is higher than {lower}" if higher > lower else ""
