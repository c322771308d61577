"""KaiEvictions: the pods that are evicted for pods of a KAI queue, because of its limit or to free nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.scheduling.quota.defaults import PriorityEvictions
from dray.scheduling.quota.kai.removals import KaiRemovals, fewest
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kai.policy import KaiQueues


class KaiEvictions(PriorityEvictions):
    def __init__(self, queues: KaiQueues, ask: Ask) -> None:
        super().__init__(ask)
        self._queues = queues

    def removals(self) -> KaiRemovals:
        self._queues.shares()
        return KaiRemovals(self._queues, self._ask, not_before=self._queues.not_before(self._ask.pod))

    def may_reclaim(self) -> bool:
        return self._queues.may_reclaim(self._ask)

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Finds units to evict. Pods that are being evicted already do not count."""
        queues, ask = self._queues, self._ask
        with queues.without_evicted():
            related = queues.queue(ask.queue).related
            found = fewest(self.removals(), related, trial, lambda: queues.short(ask) is None)
        return (found, queues.node_flavors.reserved(ask.pod, ask.wanted)) if found is not None else None

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        if not lacks:
            return self._queues.gives_way(queue) and self.may_reclaim()
        return priority < self._ask.priority if queue == self._ask.queue else self._queues.gives_way(queue)
