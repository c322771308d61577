"""Why a pod is preempted, for its event and conditions: a queue reclaims quota, or the other pod is more important."""

from __future__ import annotations

from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.queues import Queues


def preemption_reason(queues: Queues, preemptor: Pod, victim: Pod, *, reclaims: bool) -> str:
    """Returns the reason as the rest of a sentence; empty if neither quota nor priority explains the preemption.

    `reclaims` says whether the preemptor takes back what is due to its queue. Pods of the same queue are preempted by
    priority in any case.
    """
    policy = queues.policy_of(preemptor)
    member = policy.member(preemptor) if policy is not None else None
    own = member.queue if member is not None else ""
    other = queues.charged(victim).get(policy.label) if policy is not None else None
    if reclaims and own and other and own != other:
        return f"queue {own} reclaims quota from queue {other}"
    # Queues may give pods other priorities than they have on nodes.
    in_queue = policy.member(victim) if policy is not None and reclaims else None
    if member is not None and in_queue is not None:
        return _by_priority(preemptor, member.priority, victim, in_queue.priority)
    return _by_priority(preemptor, preemptor.priority, victim, victim.priority)


def _by_priority(preemptor: Pod, higher: int, victim: Pod, lower: int) -> str:
    if higher > lower:
        return f"priority {higher} is higher than {lower}"
    if higher == lower and start_of(preemptor) < start_of(victim):
        return f"same priority {lower}, and it is older"
    return ""
