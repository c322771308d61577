"""KueueEvictions: the pods that may be evicted for pods of a Kueue queue, to free quota or nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.defaults import PriorityRemovals, Unit
from dray.scheduling.quota.kueue.fair_preemption import FairPreemption
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.preemption import Preemption
from dray.scheduling.quota.kueue.shares import below_common, share_of
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kueue.policy import KueueQueues

_NO_COHORT: Final = "queue "
# The cost if no pods of the same queue are evicted and nothing is borrowed.
_CHEAPEST: Final = (False, 0)


class KueueEvictions:
    def __init__(self, queues: KueueQueues, ask: Ask) -> None:
        self._queues = queues
        self._known = queues.cluster_queues()
        self._tree = queues.tree
        self._ask = ask

    @property
    def wait_key(self) -> Hashable:
        """Returns the flavors that the pods may use; None if they may use all."""
        flavors, pod = self._queues.flavors, self._ask.pod
        if not (pod.requirements.node_selector or flavors.tainted):
            return None
        queue = self._known.get(self._ask.queue)
        if queue is None or flavors.is_uniform(queue):
            return None
        return tuple(flavors.of(queue, name, pod) for name in self._ask.wanted)

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
        with self._tree.what_if(queue, {asset: -amount for asset, amount in reserved.items()}):
            return all(
                any(
                    self._tree.available(queue, Asset(flavor, name)) >= amount
                    for flavor in self._queues.flavors.of(known, name)
                )
                for (_, name), amount in reserved.items()
            )


class KueueRemovals(PriorityRemovals):
    """The pods that may be evicted for pods of a Kueue queue that have quota but fit on no node.

    Pods of lower priority may be evicted, as for any pod. Pods whose queue would reclaim the quota at once are not
    evicted: the quota is their queue's own, and the other queue would borrow it. Otherwise both queues would evict each
    other's pods without end.
    """

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
        if not any(self._tree.is_borrowing(name, asset) for asset in held):
            return True
        return self._queues.is_fair(self._root) and self._has_smaller_share(name, wanted)

    def _has_smaller_share(self, name: str, wanted: Mapping[Asset, int]) -> bool:
        own = self._tree.node(self._ask.queue)
        ours, theirs = below_common(own, self._tree.node(name))
        with self._tree.what_if(own.name, wanted):
            return share_of(theirs) <= share_of(ours)


class FlavorReclaim:
    """The flavor in which pods are evicted for quota, and the units to evict.

    Flavors are tried in the order of the queue. The best flavor is one in which it suffices to evict pods of other
    queues, then the one for which the queue has to borrow from the closest cohort, then the first flavor. The queue may
    also ask for the first flavor in which pods can be evicted. If the queue asks for more than its nominal quota, no
    pod is evicted, unless a cohort below the topmost has enough quota, the queue may preempt while it borrows, or fair
    sharing is on.
    """

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
        preemption = partial(Preemption, self._queues.tree, self._known, self._ask, assets, self._trial)
        first = preemption()
        found = self._found_by(first)
        if found is None and self._trial.lacks_place and first.may_widen:
            found = self._found_by(preemption(for_place=True))
        if found is None and self._trial.tries_again(first.candidates()):
            found = self._found_by(preemption(near_first=True, for_place=first.may_widen))
        return found

    def _found_by(self, preemption: Preemption) -> list[RunningUnit] | None:
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
