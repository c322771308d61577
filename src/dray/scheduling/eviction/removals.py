"""Removals: the rules for evictions for pods that fit on no node: of their queue system, or by priority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.scheduling.core.eviction_history import EvictionHistory
from dray.scheduling.core.state import State
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import PriorityRemovals, Unit
from dray.scheduling.quota.queue_policy import Ask, Removals
from dray.scheduling.quota.queues import Queues


def removals_for(state: State, pods: Sequence[Pod], now: float) -> Removals:
    """Returns the rule for one pod, or for pods of a group that start together."""
    rule = _rule(state.queues, pods, now)
    return SparingRemovals(rule, state.evictions, pods[0], now) if state.evictions else rule


def _rule(queues: Queues, pods: Sequence[Pod], now: float) -> Removals:
    member = queues.member(pods[0])
    if member is not None:
        policy, queue, priority = member
        return policy.evictions(
            Ask(tuple(pods), queue, policy.charges.costs.wanted(queue, pods), priority, now)
        ).removals()
    return PriorityRemovals(pods[0].priority)


class SparingRemovals:
    """Spares pods that were evicted too often, and in a circle, for the pods that ask."""

    def __init__(self, rule: Removals, evictions: EvictionHistory, asking: Pod, now: float) -> None:
        self._rule = rule
        self._evictions = evictions
        self._asking = asking
        self._now = now
        self.hopeless = rule.hopeless

    @property
    def retry_at(self) -> float:
        return min(self._rule.retry_at, self._evictions.retry_at(self._asking, self._now))

    def is_evictable(self, pod: Pod) -> bool:
        return self._rule.is_evictable(pod) and not self._evictions.spares(self._asking, pod, self._now)

    def allowed(self, units: Iterable[Unit]) -> list[Unit]:
        return self._rule.allowed(units)

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return self._rule.reclaims(victims)
