"""FairPreemption: the units to evict for quota by the shares of queues (Kueue's fair sharing).

The search goes down from the topmost cohort, to the child with the highest share, and finds a queue that has units to
evict. A unit is evicted if the queue that asks stays within its nominal quota of what it lacks. Otherwise a unit is
evicted if the share of the queue that asks, including what it asks for, is not larger than the share of the other queue
without the unit (`LessThanOrEqualToFinalShare`). If that does not free enough, a unit is also evicted if the share of
the queue that asks is smaller than the share of the other queue (`LessThanInitialShare`). Shares are compared right
below the lowest cohort that contains both queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.scheduling.quota.kueue.preemption import Preemption
from dray.scheduling.quota.kueue.shares import NONE, Share, below_common, path_of, share_of
from dray.scheduling.quota.queue_policy import RunningUnit
from dray.scheduling.quota.quota_tree import QuotaNode

FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
INITIAL_SHARE: Final = "LessThanInitialShare"
STRATEGIES: Final = ((FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE))
"""The allowed lists of strategies; the last is the default."""


class FairPreemption:
    def __init__(self, preemption: Preemption, strategies: Sequence[str]) -> None:
        self._preemption = preemption
        self._trial = preemption.trial
        self._strategies = strategies
        self._own = preemption.tree.node(preemption.queue.name)
        self._path = path_of(self._own)
        self._left: dict[str, list[RunningUnit]] = {}
        """The units of each queue that have not been considered yet, in order."""
        self._victims: list[RunningUnit] = []
        self._is_entitled = preemption.is_within_nominal()

    def find(self) -> list[RunningUnit] | None:
        preemption = self._preemption
        if preemption.fits(borrowing=True):
            return []
        with preemption.tree.what_if(self._own.name, preemption.assets):
            retry: list[RunningUnit] = []
            done = self._run(preemption.candidates(), self._strategies[0], retry)
            if not done and len(self._strategies) > 1:
                done = self._run(retry, self._strategies[1], [])
        if done:
            return preemption.without_needless(self._victims, borrowing=True)
        for unit in self._victims:
            self._trial.restore(unit)
        return None

    def _run(self, candidates: Sequence[RunningUnit], strategy: str, retry: list[RunningUnit]) -> bool:
        self._left = {}
        for unit in candidates:
            self._left.setdefault(unit.queue, []).append(unit)
        while (target := self._next(self._path[-1])) is not None:
            units = self._left[target.name]
            while units:
                unit = units.pop(0)
                entitled = target is self._own or self._is_entitled
                if entitled or self._is_fair(target, unit, strategy):
                    self._remove(unit)
                    if self._fits():
                        return True
                    break
                retry.append(unit)
        return False

    def _remove(self, unit: RunningUnit) -> None:
        self._trial.remove(unit)
        self._victims.append(unit)

    def _fits(self) -> bool:
        less = {asset: -amount for asset, amount in self._preemption.assets.items()}
        with self._preemption.tree.what_if(self._own.name, less):
            return self._preemption.fits(borrowing=True)

    def _is_fair(self, target: QuotaNode, unit: RunningUnit, strategy: str) -> bool:
        ours, theirs = below_common(self._own, target)
        share = share_of(ours)
        if strategy == INITIAL_SHARE:
            return share < share_of(theirs)
        self._trial.remove(unit)
        left = share_of(theirs)
        self._trial.restore(unit)
        return share <= left

    def _next(self, cohort: QuotaNode) -> QuotaNode | None:
        """Returns the queue whose unit is considered next; None if no queue below the cohort has units left."""
        if cohort.is_queue:
            return cohort if self._left.get(cohort.name) else None
        found: list[tuple[Share, bool, QuotaNode]] = []
        for child in cohort.children:
            share = share_of(child)
            if share > NONE or child in self._path:
                chosen = self._next(child)
                if chosen is not None:
                    found.append((share, not child.is_queue, chosen))
        return max(found, key=lambda entry: entry[:2])[2] if found else None
