"""FlavorReclaim: the flavor in which pods are evicted for quota, and the units to evict.

Flavors are tried in the order of the queue. The best flavor is one in which it suffices to evict pods of other queues,
then the one for which the queue has to borrow from the closest cohort, then the first flavor. The queue may also ask
for the first flavor in which pods can be evicted. If the queue asks for more than its nominal quota, no pod is evicted,
unless a cohort below the topmost has enough quota, the queue may preempt while it borrows, or fair sharing is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.scheduling.quota.kueue.fair_preemption import FairPreemption
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.preemption import Preemption
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kueue.policy import KueueQueues

_NO_COHORT: Final = "queue "
# The cost if no pods of the same queue are evicted and nothing is borrowed.
_CHEAPEST: Final = (False, 0)


class FlavorReclaim:
    def __init__(self, queues: KueueQueues, known: Mapping[str, ClusterQueue], ask: Ask, trial: ReclaimTrial) -> None:
        self._queues = queues
        self._known = known
        self._ask = ask
        self._trial = trial
        self._queue = known[ask.queue]
        self._root = queues.tree.root(ask.queue)
        self._is_fair = queues.is_fair(self._root)

    def find(self) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Returns the units to evict and the assets that the pods are charged to then; None if no units can be
        found."""
        flavors, queue = self._queues.flavors, self._queue
        best: tuple[tuple[bool, int], dict[Asset, int]] | None = None
        latest: list[RunningUnit] | None = None
        for assets in self._queues.ways(self._ask):
            if flavors.has_room(queue, assets) or not self._may_preempt(assets):
                # The queue has enough quota and the pods lack only a node, or the queue may not evict pods for it.
                continue
            units = self._units(assets)
            if units is None:
                continue
            cost = any(unit.queue == queue.name for unit in units), flavors.borrowing_level(queue, assets)
            if queue.preempts_in_first_flavor or cost == _CHEAPEST:
                return units, assets
            for unit in units:
                self._trial.restore(unit)
            is_best = best is None or cost < best[0]
            best, latest = ((cost, assets), units) if is_best else (best, None)
        if best is None:
            return None
        # The trial keeps the placement that was found last, so the units are found again unless they were the last.
        units = latest if latest is not None else self._units(best[1])
        return (units, best[1]) if units is not None else None

    def _units(self, assets: Mapping[Asset, int]) -> list[RunningUnit] | None:
        preemption = Preemption(self._queues.tree, self._known, self._ask, assets, self._trial)
        if self._is_fair and not self._root.startswith(_NO_COHORT):
            return FairPreemption(preemption, self._queues.strategies(self._root)).find()
        return preemption.find()

    def _may_preempt(self, assets: Mapping[Asset, int]) -> bool:
        queue, tree = self._queue, self._queues.tree
        if queue.borrows != "Never" or self._is_fair:
            return True
        node = tree.node(queue.name)
        return all(
            amount <= tree.available(queue.name, asset)
            or amount <= node.quota(asset).nominal
            or node.borrows_from(asset, amount).parent is not None
            for asset, amount in assets.items()
        )
