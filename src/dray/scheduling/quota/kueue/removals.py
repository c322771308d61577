"""KueueRemovals: the pods that may be evicted for pods of a Kueue queue that have quota but fit on no node.

Pods of lower priority may be evicted, as for any pod. Pods whose queue would reclaim the quota at once are not evicted:
the quota is their queue's own, and the other queue would borrow it. Otherwise both queues would evict each other's pods
without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.defaults import PriorityRemovals, Unit
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.shares import below_common, share_of
from dray.scheduling.quota.queue_policy import Ask, Asset

if TYPE_CHECKING:
    from dray.scheduling.quota.kueue.policy import KueueQueues


class KueueRemovals(PriorityRemovals):
    def __init__(self, queues: KueueQueues, known: Mapping[str, ClusterQueue], ask: Ask) -> None:
        super().__init__(ask.pod.priority)
        self._queues = queues
        self._known = known
        self._tree = queues.tree
        self._charges = queues.charges
        self._ask = ask
        self._root = queues.tree.root(ask.queue)

    def is_evictable(self, pod: Pod) -> bool:
        return super().is_evictable(pod) and not self._would_reclaim((pod,))

    def allowed(self, units: Iterable[Unit]) -> list[Unit]:
        """Returns the units that may be evicted. Each unit is checked as if the units evicted before it had been
        removed: a queue may lose what it borrows."""
        found: list[Unit] = []
        with self._charges.trial() as trial:
            for unit in reversed(super().allowed(units)):
                if not self._would_reclaim(unit):
                    found.append(unit)
                    for pod in unit:
                        self._charges.set_aside(pod, trial)
        return found[::-1]

    def _would_reclaim(self, unit: Unit) -> bool:
        """Whether the queue of the unit could evict the pods for which the unit is evicted."""
        charge = self._charges.of(unit[0].uid)
        name = charge.queue if charge is not None else ""
        queue = self._known.get(name)
        if queue is None:
            return False
        above = max(map(self._queues.priority, unit)) > self._ask.priority
        if name == self._ask.queue:
            return above and queue.preempts != "Never"
        if queue.reclaims == "Never" or (queue.reclaims != "Any" and not above) or self._tree.root(name) != self._root:
            return False
        held = {asset for pod in unit for asset in self._charges.assets_of(pod)}
        wanted = {asset: self._ask.wanted[asset.resource] for asset in held if asset.resource in self._ask.wanted}
        if not any(self._tree.is_borrowing(self._ask.queue, asset, amount) for asset, amount in wanted.items()):
            return False
        if self._queues.is_fair(self._root):
            return self._has_smaller_share(name, wanted)
        return not any(self._tree.is_borrowing(name, asset) for asset in held)

    def _has_smaller_share(self, name: str, wanted: Mapping[Asset, int]) -> bool:
        own = self._tree.node(self._ask.queue)
        ours, theirs = below_common(own, self._tree.node(name))
        with self._tree.what_if(own.name, wanted):
            return share_of(theirs) <= share_of(ours)
