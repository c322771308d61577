"""Preemption: the units to evict so that pods of a queue get quota, without fair sharing.

A queue reclaims quota that other queues borrowed, its own and that of its cohorts (`reclaimWithinCohort`). A queue that
borrows may evict units of lower priority of other borrowers (`borrowWithinCohort`). Within a queue, units of lower
priority are evicted (`withinClusterQueue`). Units of queues that owe quota are evicted first, then units of other
borrowers, then units of the same queue; units of low priority first, then the youngest; and as few as possible. There
are two attempts, as in Kueue:

1. Units of queues that owe quota, units of low priority of other borrowers and units of the same queue are evicted. The
   queue may borrow.
2. All units are evicted that the policies allow, until the pods fit without borrowing.

If no queue owes quota and the queue may not evict while it borrows, the second attempt comes first. If such a queue
uses its nominal quota already, there is only the first attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.shares import path_of
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit
from dray.scheduling.quota.quota_tree import QuotaNode, QuotaTree


class Preemption:
    def __init__(
        self,
        tree: QuotaTree,
        queues: Mapping[str, ClusterQueue],
        ask: Ask,
        assets: Mapping[Asset, int],
        trial: ReclaimTrial,
        *,
        near_first: bool = False,
        for_place: bool = False,
    ) -> None:
        """For pods that lack quota and would also fit on no node: with `near_first`, units on nodes that the pods could
        use are evicted first. With `for_place`, units may be evicted that use any of the assets, not only those that
        the queue lacks."""
        self.tree = tree
        self.queue = queues[ask.queue]
        self.ask = ask
        self.assets = assets
        self.trial = trial
        self._near_first = near_first
        self._lacking = {asset for asset, amount in assets.items() if tree.available(ask.queue, asset) < amount}
        """The assets of which the queue has too little left."""
        self._contested = set(assets) if for_place else self._lacking or set(assets)
        """The assets of which units may be evicted: those that the queue lacks, or all if it lacks none."""
        self._borrowers: dict[str, Borrower] = {}
        """The other queues whose units may be evicted, by name."""

    @property
    def may_widen(self) -> bool:
        """Whether more units may be evicted with `for_place`."""
        return self._contested != self.assets.keys()

    def is_within_nominal(self) -> bool:
        """Whether the queue, with what it asks for, uses no more than its own quota of what it lacks."""
        name = self.queue.name
        return not any(self.tree.is_borrowing(name, asset, self.assets[asset]) for asset in self._contested)

    def find(self) -> list[RunningUnit] | None:
        """Returns the units to evict; an empty list if the pods fit already, None if evictions cannot help."""
        if self.fits(borrowing=True):
            return []
        for candidates, borrowing in self._attempts():
            found = self._fewest(candidates, borrowing=borrowing)
            if found is not None:
                return found
        return None

    def _attempts(self) -> list[tuple[list[RunningUnit], bool]]:
        """Returns the attempts: units in the order of eviction, and whether the queue may borrow."""
        threshold = self._borrowing_threshold()
        # A queue that uses its nominal quota takes only what others owe, and what it may take while it borrows.
        may_take = threshold is not None or self._is_under_nominal()
        if self.queue.reclaims != "Never":
            found = borrowers(self.tree.node(self.queue.name), self.assets, self._contested)
            self._borrowers = {borrower.queue.name: borrower for borrower in found if borrower.owes or may_take}
        owing = self._units(name for name, borrower in self._borrowers.items() if borrower.owes)
        others = self._units(name for name, borrower in self._borrowers.items() if not borrower.owes)
        own = self._own_units()
        lesser = [unit for unit in others if threshold is not None and unit.priority < threshold]
        attempts = [([*owing, *lesser, *own], True)]
        if len(lesser) < len(others):
            attempts.append(([*owing, *others, *own], False))
        return attempts if owing or threshold is not None else attempts[::-1]

    def _borrowing_threshold(self) -> int | None:
        """Returns the priority below which units of other queues may be evicted while the queue borrows; None: no
        unit."""
        if self.queue.borrows == "Never":
            return None
        most, priority = self.queue.borrows_below, self.ask.priority
        return most + 1 if most is not None and most < priority else priority

    def _is_under_nominal(self) -> bool:
        return not any(
            self.tree.used(self.queue.name, asset) >= self.tree.node(self.queue.name).quota(asset).nominal
            for asset in self._lacking
        )

    def fits(self, *, borrowing: bool) -> bool:
        name = self.queue.name
        for asset, amount in self.assets.items():
            if not borrowing and self.tree.is_borrowing(name, asset, amount):
                return False
            if amount > self.tree.available(name, asset):
                return False
        return self.trial.is_placeable()

    def _fewest(self, candidates: Sequence[RunningUnit], *, borrowing: bool) -> list[RunningUnit] | None:
        victims: list[RunningUnit] = []
        for unit in candidates:
            borrower = self._borrowers.get(unit.queue)
            if borrower is not None and not borrower.is_borrowing(self._contested):
                continue
            self.trial.remove(unit)
            victims.append(unit)
            if self.fits(borrowing=borrowing):
                return self.without_needless(victims, borrowing=borrowing)
        for unit in victims:
            self.trial.restore(unit)
        return None

    def without_needless(self, victims: list[RunningUnit], *, borrowing: bool) -> list[RunningUnit]:
        """Restores units that need not be evicted, in reverse order. The last removed unit is always needed."""
        for unit in victims[-2::-1]:
            self.trial.restore(unit)
            if self.fits(borrowing=borrowing):
                victims.remove(unit)
            else:
                self.trial.remove(unit)
        return victims

    def candidates(self) -> list[RunningUnit]:
        """Returns the units that may be evicted by the policies of the queue, in the order of eviction."""
        others = self.tree.related(self.queue.name) if self.queue.reclaims != "Never" else ()
        borrowing = [
            queue
            for queue in others
            if queue != self.queue.name and any(self.tree.is_borrowing(queue, asset) for asset in self._contested)
        ]
        return [*self._units(borrowing), *self._own_units()]

    def _own_units(self) -> list[RunningUnit]:
        return self._units([self.queue.name]) if self.queue.preempts != "Never" else []

    def _units(self, queues: Iterable[str]) -> list[RunningUnit]:
        """Returns the units of the queues that may be evicted: those of low priority first, then the youngest."""
        found = [
            unit
            for unit in self.trial.units(queues)
            if not unit.assets.isdisjoint(self._contested) and self._may_evict(unit)
        ]
        # Which of equals is evicted must not depend on the order in which the scheduler came to know them.
        found.sort(key=lambda unit: min([pod.key for pod in unit.pods]))
        found.sort(key=attrgetter("start"), reverse=True)
        found.sort(key=attrgetter("priority"))
        if self._near_first:
            found.sort(key=lambda unit: not self.trial.is_near(unit))
        return found

    def _may_evict(self, unit: RunningUnit) -> bool:
        queue, priority = self.queue, self.ask.priority
        if unit.queue == queue.name:
            newer = unit.priority == priority and unit.created > min(pod.created for pod in self.ask.pods)
            lower = unit.priority < priority
            return {"LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer}.get(queue.preempts, False)
        return queue.reclaims == "Any" or (queue.reclaims == "LowerPriority" and unit.priority < priority)


@dataclass(frozen=True, slots=True)
class Borrower:
    """A queue that uses more than its quota, from which another queue may reclaim."""

    queue: QuotaNode
    common: QuotaNode
    """The lowest cohort that contains both the borrower and the queue that asks."""
    owes: bool
    """Whether a descendant of `common` on the path to the asking queue would not borrow with what is asked."""

    def is_borrowing(self, assets: Collection[Asset]) -> bool:
        """Whether the queue and its cohorts below the common cohort still borrow one of the assets."""
        for node in path_of(self.queue):
            if node is self.common:
                return True
            if not _is_borrowing(node, assets):
                return False
        return False


def borrowers(own: QuotaNode, wanted: Mapping[Asset, int], assets: Collection[Asset]) -> Iterator[Borrower]:
    """Yields the queues that borrow one of the assets; `wanted` are all amounts that the queue asks for.

    The search starts at the queue that asks for quota and visits its cohorts upwards. In each cohort it finds the
    queues below other children that borrow. A child that uses no more than its own quota and that of its descendants is
    skipped, even if queues below it borrow from each other. Borrowers owe quota to the asking queue if they are found
    above the lowest cohort whose quota is enough for what is asked, however small the quota of the queue itself is.
    """
    entitled, owes = own.entitled(wanted), False
    for below, common in pairwise(path_of(own)):
        owes = owes or below is entitled
        for queue in _below(common, below, assets):
            yield Borrower(queue, common, owes)


def _below(cohort: QuotaNode, skipped: QuotaNode, assets: Collection[Asset]) -> Iterator[QuotaNode]:
    for child in cohort.children:
        if child is skipped or not _is_borrowing(child, assets):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _below(child, skipped, assets)


def _is_borrowing(node: QuotaNode, assets: Collection[Asset]) -> bool:
    return any(node.is_borrowing(asset) for asset in assets)
