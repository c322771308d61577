"""Preemption for quota where shares do not count: which units go so that others get what they want.

What a queue has by right and others borrowed comes back (`reclaimWithinCohort`); a queue that borrows may have the less
important of other borrowers removed (`borrowWithinCohort`); and within a queue the less important make room
(`withinClusterQueue`). Borrowers of other queues go first, then those of the lowest priority, then the youngest; no
more than it takes. The attempts and their order are Kueue's:

1. only pods of the same queue could go: they go, and the queue may borrow;
2. it may have others removed while it borrows: those below a priority, and all if that way it need not borrow;
3. it has less than its own: all go that may, until it fits without borrowing;
4. pods of the same queue go, and the queue may borrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.scheduling.front_ends.kueue import ClusterQueue
from dray.scheduling.model import start_of
from dray.scheduling.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit
from dray.scheduling.quota_tree import QuotaTree


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
        """Where it lacks nothing, nobody has to go."""

    def find(self) -> list[RunningUnit] | None:
        """The units to remove; none where what is going already is enough."""
        if self.fits(borrowing=True):
            return []
        under = self._is_under_nominal()
        threshold = self._borrowing_threshold()
        # A queue that has its own already takes from others only what it may while it borrows.
        candidates = self.candidates(others=under or threshold is not None)
        own = [each for each in candidates if each.queue == self.queue.name]
        if len(own) == len(candidates):
            return self._fewest(candidates, borrowing=True)
        if threshold is not None:
            if not under:
                candidates = [each for each in candidates if each.queue == self.queue.name or each.priority < threshold]
            return self._fewest(candidates, borrowing=True, below=threshold)
        if under and (found := self._fewest(candidates, borrowing=False)) is not None:
            return found
        return self._fewest(own, borrowing=True)

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

    def _fewest(
        self, candidates: Sequence[RunningUnit], *, borrowing: bool, below: int | None = None
    ) -> list[RunningUnit] | None:
        victims: list[RunningUnit] = []
        for unit in candidates:
            if unit.queue != self.queue.name:
                if not self._is_borrowing(unit.queue):
                    continue
                if below is not None and unit.priority >= below:
                    borrowing = False
            self.trial.remove(unit)
            victims.append(unit)
            if self.fits(borrowing=borrowing):
                return self.let_back(victims, borrowing=borrowing)
        for unit in victims:
            self.trial.restore(unit)
        return None

    def let_back(self, victims: list[RunningUnit], *, borrowing: bool) -> list[RunningUnit]:
        """Those stay that need not go, the last removed first; without the very last it does not fit."""
        for unit in victims[-2::-1]:
            self.trial.restore(unit)
            if self.fits(borrowing=borrowing):
                victims.remove(unit)
            else:
                self.trial.remove(unit)
        return victims

    def candidates(self, *, others: bool = True) -> list[RunningUnit]:
        """Who may go by the policies of the queue, in the order in which they do."""
        queues = [self.queue.name] if self.queue.preempts != "Never" else []
        if others and self.queue.reclaims != "Never":
            related = self.tree.related(self.queue.name)
            queues += [each for each in related if each != self.queue.name and self._is_borrowing(each)]
        found = [
            each
            for each in self.trial.units(queues)
            if not each.assets.isdisjoint(self._lacking or self.assets) and self._may_go(each)
        ]
        found.sort(key=lambda each: each.start, reverse=True)
        found.sort(key=lambda each: (each.queue == self.queue.name, each.priority))
        return found

    def _may_go(self, unit: RunningUnit) -> bool:
        queue, priority = self.queue, self.ask.priority
        if unit.queue == queue.name:
            newer = unit.priority == priority and unit.start > start_of(self.ask.pod)
            lower = unit.priority < priority
            return {"LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer}.get(queue.preempts, False)
        return queue.reclaims == "Any" or (queue.reclaims == "LowerPriority" and unit.priority < priority)

    def _is_borrowing(self, queue: str) -> bool:
        return any(self.tree.is_borrowing(queue, each) for each in self._lacking or self.assets)
