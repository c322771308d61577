"""KueueEvictions: the pods that may be evicted for pods of a Kueue queue, to free quota or nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.scheduling.quota.kueue.flavor_reclaim import FlavorReclaim
from dray.scheduling.quota.kueue.removals import KueueRemovals
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kueue.policy import KueueQueues


class KueueEvictions:
    def __init__(self, queues: KueueQueues, ask: Ask) -> None:
        self._queues = queues
        self._known = queues.cluster_queues()
        self._tree = queues.tree
        self._ask = ask

    def removals(self) -> KueueRemovals:
        return KueueRemovals(self._queues, self._known, self._ask)

    def may_reclaim(self) -> bool:
        queue = self._known[self._ask.queue]
        if queue.reclaims == "Never" and queue.preempts == "Never":
            return False
        return all(self._is_hopeful(pod_set.wanted) for pod_set in self._queues.pod_sets(self._ask))

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        return FlavorReclaim(self._queues, self._known, self._ask, trial).find()

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        return self._may_remove(queue, priority) if lacks else self._gives_way(queue) and self.may_reclaim()

    def _may_remove(self, queue: str, priority: int) -> bool:
        ask, mine = self._ask, self._known.get(self._ask.queue)
        if mine is None or queue not in self._known:
            return False
        if queue == ask.queue:
            newer = mine.preempts == "LowerOrNewerEqualPriority" and priority == ask.priority
            return mine.preempts != "Never" and (priority < ask.priority or newer)
        if mine.reclaims == "Never" or (mine.reclaims == "LowerPriority" and priority >= ask.priority):
            return False
        return any(self._tree.is_borrowing(queue, asset) for asset in self._tree.node(queue).used)

    def _gives_way(self, queue: str) -> bool:
        """Whether the queue borrows and queues of its cohort have several flavors. With a single flavor, pods reclaim
        only if they lack quota."""
        queues = (self._known[name] for name in self._tree.related(queue))
        if all(map(self._queues.flavors.is_uniform, queues)):
            return False
        return any(self._tree.is_borrowing(queue, asset) for asset in self._tree.node(queue).used)

    def is_hopeful(self) -> bool:
        return self._is_hopeful(self._ask.wanted)

    def _is_hopeful(self, wanted: Mapping[str, int]) -> bool:
        queue, known = self._ask.queue, self._known.get(self._ask.queue)
        if known is None or known.borrows != "Never" or self._queues.is_fair(self._tree.root(queue)):
            return True
        for name, amount in wanted.items():
            for flavor in self._queues.flavors.of(known, name):
                asset = Asset(flavor, name)
                own = 0
                if known.preempts == "LowerPriority":
                    own = self._queues.charges.below(queue, self._ask.priority, asset)
                elif known.preempts != "Never":
                    own = self._tree.used(queue, asset)
                within_quota = not self._tree.is_borrowing(queue, asset, amount - own)
                may_reclaim = known.reclaims != "Never" and (within_quota or self._tree.is_owed(queue, asset, amount))
                if may_reclaim or amount <= self._tree.available(queue, asset) + own:
                    break
            else:
                return False
        return True

    def has_room(self, reserved: Mapping[Asset, int]) -> bool:
        queue, known = self._ask.queue, self._known.get(self._ask.queue)
        if known is None:
            return True
        self._tree.charge(queue, reserved, -1)
        try:
            return all(
                any(
                    self._tree.available(queue, Asset(flavor, name)) >= amount
                    for flavor in self._queues.flavors.of(known, name)
                )
                for (_, name), amount in reserved.items()
            )
        finally:
            self._tree.charge(queue, reserved, 1)
