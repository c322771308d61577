"""Pruning: cuts places of the search that lead nowhere. It never removes the first solution.

Three means, each sound by itself: bounds on what is left to serve, interchangeable devices tried once, and a memory
of states that were searched in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.allocation import bounds
from dray.allocation.budgets import Budgets
from dray.allocation.constraints import Constraint
from dray.allocation.demands import Demand, Way
from dray.allocation.picks import Picks
from dray.allocation.requests import Choice, Request, Task
from dray.allocation.shares import Shares
from dray.allocation.symmetry import Symmetry
from dray.allocation.work import Work

if TYPE_CHECKING:
    from dray.allocation.search import Frame

_MOST_MEMORIES: Final = 100_000


class Pruning:
    def __init__(self, task: Task, choices: Sequence[Choice], picks: Picks, work: Work) -> None:
        self._task = task
        self._choices = choices
        self._picks = picks
        self._work = work
        self.depth = 1
        """How thorough the pruning is; what was looked at less thoroughly is worth another look."""
        self._solvable: Callable[[Sequence[int]], bool] | None = None
        self._symmetry = Symmetry(task, picks)
        self._budgets = Budgets(task.view)
        self._shares = Shares(task, picks)
        self._relevant, self._covered = _tails(choices)
        self._has_admin = any(option.admin for choice in choices for option in choice.options)
        self._shared = task.view.shareable.bit_count()
        self._vain: set[Any] = set()
        self._culprit: list[int] = []

    def look_closer(self) -> None:
        """From now on follows every constraint to the last value, not only those of the request at hand."""
        self.depth = 2

    def look_ahead(self, solvable: Callable[[Sequence[int]], bool]) -> None:
        """From now on asks whether each group of choices that constraints tie together is solvable by itself."""
        self.depth = 3
        self._solvable = solvable

    def alike(self, rank: int) -> int:
        return self._symmetry.alike(rank)

    def narrowed(self, frame: Frame) -> int:
        """The devices worth trying in the frame; none where no solution can follow."""
        if frame.state in self._vain:
            return 0
        self._work.spend(self._price(frame.choice))
        demands = self._demands(frame)
        shareable = self._task.view.shareable
        possible = (
            bounds.by_count(demands)
            and self._shares.fit(demands)
            and self._constraints_hold(demands, frame)
            and bounds.by_count(demands)
            and bounds.by_matching(demands, shareable)
            and self._budgets.affordable(demands, self._picks)
            and self._groups_solvable(frame.choice + 1)
        )
        return demands[0].bits & frame.left if possible else 0

    def _price(self, first: int) -> int:
        """The work of computing all bounds from a choice on, as measured: it grows with what they look at."""
        counters = self._budgets.size
        ahead = len(self._choices) - first
        covered = sum(map(len, self._covered[first].values()))
        return 25 + counters + ahead * (8 + counters + 2 * self._shared) + 6 * covered

    def _constraints_hold(self, demands: list[Demand], frame: Frame) -> bool:
        shareable = self._task.view.shareable
        for constraint, choices in self._covered[frame.choice].items():
            covered = [demands[number - frame.choice] for number in choices]
            covered = [each for each in covered if all(constraint in way.request.constraints for way in each.ways)]
            if not covered:
                continue
            if constraint.distinct:
                holds = bounds.by_distinction(covered, constraint)
            else:
                thorough = choices[0] == frame.choice or self.depth > 1
                holds = bounds.by_match(covered, constraint, shareable, thorough=thorough)
            if not holds:
                return False
        return True

    def _groups_solvable(self, first: int) -> bool:
        if self._solvable is None:
            return True
        groups = self._groups(first)
        # What failed last is likely to fail again.
        groups.sort(key=lambda group: group != self._culprit)
        for group in groups:
            if not self._solvable(group):
                self._culprit = group
                return False
        return True

    def _groups(self, first: int) -> list[list[int]]:
        """The choices from `first` on, grouped by the constraints they have in common."""
        groups: list[tuple[set[Constraint], list[int]]] = []
        for number in range(first, len(self._choices)):
            ties = {constraint for option in self._choices[number].options for constraint in option.constraints}
            joined = [number]
            apart = []
            for known, members in groups:
                if known & ties:
                    ties, joined = ties | known, members + joined
                else:
                    apart.append((known, members))
            groups = [*apart, (ties, sorted(joined))]
        return [members for _, members in groups]

    def _demands(self, frame: Frame) -> list[Demand]:
        choices = self._choices
        current = choices[frame.choice]
        request = current.options[frame.option]
        beyond = ~self._budgets.unaffordable(self._picks.left)
        left = frame.left & beyond
        if request.listed is not None:
            for rank in request.listed[frame.index + 1 :]:
                left |= self._open(request, current.claim) & 1 << rank
        demands = [Demand(current.claim, [Way(request, request.need - frame.index, left)])]
        for choice in choices[frame.choice + 1 :]:
            ways = [
                Way(option, option.need, self._open(option, choice.claim) & beyond)
                for option in choice.options
                if option.need
            ]
            demands.append(Demand(choice.claim, ways))
        return demands

    def _open(self, request: Request, claim: int) -> int:
        bits = request.candidates
        for constraint in request.constraints:
            bits &= constraint.mask(request)
        if request.admin:
            return bits & ~self._picks.taken_by[claim]
        return bits & ~(self._task.held | self._picks.taken)

    # Memory

    def remember(self, state: Any) -> None:
        """Nothing was found from this state."""
        if len(self._vain) < _MOST_MEMORIES:
            self._vain.add(state)

    def state(self, frame: Frame) -> Any:
        """What decides whether a solution follows, equal for states that differ by interchangeable devices."""
        picks = self._picks
        claim = self._choices[frame.choice].claim
        return (
            frame.choice,
            frame.option,
            frame.index,
            picks.sizes[claim],
            self._symmetry.canonical(frame.left, self._relevant[frame.choice]),
            tuple(picks.taken_by) if self._has_admin else (),
            tuple(constraint.state for constraint in self._covered[frame.choice]),
            tuple(tuple(left) for left in picks.left.values()),
            tuple(frozenset(joined[-1:]) for joined in picks.companies.values()),
        )


def _tails(choices: Sequence[Choice]) -> tuple[list[int], list[dict[Constraint, list[int]]]]:
    """From each choice on: the devices that can still be picked, and which choices each constraint covers."""
    relevant, covered = [0], [dict[Constraint, list[int]]()]
    for number in range(len(choices) - 1, -1, -1):
        bits, own = relevant[-1], dict(covered[-1])
        for option in choices[number].options:
            bits |= option.candidates
        for constraint in dict.fromkeys(each for option in choices[number].options for each in option.constraints):
            own[constraint] = [number, *own.get(constraint, ())]
        relevant.append(bits)
        covered.append(own)
    return relevant[:0:-1], covered[:0:-1]
