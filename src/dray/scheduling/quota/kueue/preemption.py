"""Preemption for quota where shares do not count: which units go so that others get what they want.

What a queue has by right and others borrowed comes back (`reclaimWithinCohort`): its own, and that of cohorts above it.
A queue that borrows may have the less important of other borrowers removed (`borrowWithinCohort`), and within a queue
the less important make room (`withinClusterQueue`). Those go first that owe what is asked, then other borrowers, then
pods of the same queue; of each the lowest priority, then the youngest; no more than it takes. The attempts are Kueue's:

1. those that owe it go, the less important of other borrowers, and pods of the same queue; the queue may borrow;
2. all go that may, until it fits without borrowing.

Where nobody owes anything and the queue may have nobody removed while it borrows, the second comes first; if such a
queue has its own already, there is only the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dray.scheduling.model.pod import start_of
from dray.scheduling.quota.kueue.borrowers import Borrower, borrowers
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit
from dray.scheduling.quota.quota_tree import QuotaTree


class Preemption:
    def __init__(
        self,
        tree: QuotaTree,
        queues: Mapping[str, ClusterQueue],
        ask: Ask,
        assets: Mapping[Asset, int],
        trial: ReclaimTrial,
    ) -> None:
        self.tree = tree
        self.queue = queues[ask.queue]
        self.ask = ask
        self.assets = assets
        self.trial = trial
        self._lacking = {each for each, amount in assets.items() if tree.available(ask.queue, each) < amount}
        """The assets that the queue lacks; if there are none, nothing is evicted."""
        self._contested = self._lacking or set(assets)
        self._borrowers: dict[str, Borrower] = {}
        """The queues of which units may be evicted, by name."""

    def find(self) -> list[RunningUnit] | None:
        """The units to remove; none where what is going already is enough."""
        if self.fits(borrowing=True):
            return []
        for candidates, borrowing in self._attempts():
            found = self._fewest(candidates, borrowing=borrowing)
            if found is not None:
                return found
        return None

    def _attempts(self) -> list[tuple[list[RunningUnit], bool]]:
        """Yields units in the order of eviction, and whether the queue may borrow then."""
        threshold = self._borrowing_threshold()
        # A queue that has its own already takes from others only what they owe, and what it may while it borrows.
        may_take = threshold is not None or self._is_under_nominal()
        if self.queue.reclaims != "Never":
            found = borrowers(self.tree.node(self.queue.name), self.assets, self._contested)
            self._borrowers = {each.queue.name: each for each in found if each.owes or may_take}
        owing = self._units(name for name, each in self._borrowers.items() if each.owes)
        others = self._units(name for name, each in self._borrowers.items() if not each.owes)
        own = self._own_units()
        lesser = [each for each in others if threshold is not None and each.priority < threshold]
        attempts = [([*owing, *lesser, *own], True)]
        if len(lesser) < len(others):
            attempts.append(([*owing, *others, *own], False))
        return attempts if owing or threshold is not None else attempts[::-1]

    def _borrowing_threshold(self) -> int | None:
        """Units of other queues below this priority may go although the queue borrows; None for no such units."""
        if self.queue.borrows == "Never":
            return None
        most, priority = self.queue.borrows_below, self.ask.priority
        return most + 1 if most is not None and most < priority else priority

    def _is_under_nominal(self) -> bool:
        return not any(
            self.tree.used(self.queue.name, each) >= self.tree.node(self.queue.name).quota(each).nominal
            for each in self._lacking
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
                return self.let_back(victims, borrowing=borrowing)
        for unit in victims:
            self.trial.restore(unit)
        return None

    def let_back(self, victims: list[RunningUnit], *, borrowing: bool) -> list[RunningUnit]:
        """Restores units that need not be evicted, the last removed first; the very last one is needed."""
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
            each
            for each in others
            if each != self.queue.name and any(self.tree.is_borrowing(each, asset) for asset in self._contested)
        ]
        return [*self._units(borrowing), *self._own_units()]

    def _own_units(self) -> list[RunningUnit]:
        return self._units([self.queue.name]) if self.queue.preempts != "Never" else []

    def _units(self, queues: Iterable[str]) -> list[RunningUnit]:
        """Returns the units that the policies of this queue allow to evict, by priority and then the youngest first."""
        found = [
            each
            for each in self.trial.units(queues)
            if not each.assets.isdisjoint(self._contested) and self._may_go(each)
        ]
        found.sort(key=lambda each: each.start, reverse=True)
        found.sort(key=lambda each: each.priority)
        return found

    def _may_go(self, unit: RunningUnit) -> bool:
        queue, priority = self.queue, self.ask.priority
        if unit.queue == queue.name:
            newer = unit.priority == priority and unit.start > start_of(self.ask.pod)
            lower = unit.priority < priority
            return {"LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer}.get(queue.preempts, False)
        return queue.reclaims == "Any" or (queue.reclaims == "LowerPriority" and unit.priority < priority)
