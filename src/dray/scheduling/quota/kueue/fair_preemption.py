"""FairPreemption: whom to remove for quota where the shares of queues count (Kueue's fair sharing).

Down from the topmost cohort, always where the share is highest, a queue is found that has somebody who may go. A unit
goes if the queue that wants its quota, with what it wants, has no larger share than that queue without the unit
(`LessThanOrEqualToFinalShare`), or, where that is not enough, a smaller one than that queue has
(`LessThanInitialShare`). Shares are compared right below the cohort that both have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.scheduling.quota.kueue.preemption import Preemption
from dray.scheduling.quota.kueue.shares import NONE, Share, below_common, path_of, share_of, with_more
from dray.scheduling.quota.queue_policy import RunningUnit
from dray.scheduling.quota.quota_tree import QuotaNode

FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
INITIAL_SHARE: Final = "LessThanInitialShare"
STRATEGIES: Final = ((FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE))
"""The lists that are allowed; the last is the default."""


class FairPreemption:
    def __init__(self, preemption: Preemption, strategies: Sequence[str]) -> None:
        self._preemption = preemption
        self._trial = preemption.trial
        self._strategies = strategies
        self._own = preemption.tree.node(preemption.queue.name)
        self._path = path_of(self._own)
        self._left: dict[str, list[RunningUnit]] = {}
        """The units of each queue that have not been looked at, in order."""
        self._victims: list[RunningUnit] = []

    def find(self) -> list[RunningUnit] | None:
        preemption = self._preemption
        if preemption.fits(borrowing=True):
            return []
        with with_more(self._own, preemption.assets):
            retry: list[RunningUnit] = []
            done = self._run(preemption.candidates(), self._strategies[0], retry)
            if not done and len(self._strategies) > 1:
                done = self._run(retry, self._strategies[1], [])
        if done:
            return preemption.let_back(self._victims, borrowing=True)
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
                if target is self._own or self._is_fair(target, unit, strategy):
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
        with with_more(self._own, less):
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
        """The queue whose turn it is to give something; None where nobody is left."""
        if cohort.is_queue:
            return cohort if self._left.get(cohort.name) else None
        found: list[tuple[Share, bool, QuotaNode]] = []
        for child in cohort.children:
            share = share_of(child)
            if share > NONE or child in self._path:
                chosen = self._next(child)
                if chosen is not None:
                    found.append((share, not child.is_queue, chosen))
        return max(found, key=lambda each: each[:2])[2] if found else None
