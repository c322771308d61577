"""Pruning: cuts places of the search that lead nowhere. It never removes the first solution.

Four means, each sound by itself: bounds on what is left to serve, interchangeable devices and counter sets tried once,
a memory of states that were searched in vain, and at last the question whether what is left can be served at all
(`feasibility`). Bounds that hardly ever cut anything are asked only now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.allocation.constraints import Constraint
from dray.allocation.picks import Picks
from dray.allocation.pruning import bounds
from dray.allocation.pruning.blocks import Blocks
from dray.allocation.pruning.budgets import Budgets
from dray.allocation.pruning.demands import Alternative, Demand
from dray.allocation.pruning.feasibility import Feasibility, is_orderless
from dray.allocation.pruning.shares import Shares
from dray.allocation.pruning.surrogates import Surrogates
from dray.allocation.pruning.symmetry import Symmetry
from dray.allocation.requests import Choice, Request, Task
from dray.allocation.work import Work, WorkExhausted

if TYPE_CHECKING:
    from dray.allocation.search import Frame

_MOST_MEMORIES: Final = 100_000
# Bounds pay where they narrow one of so many frames; if not, so few frames are looked at.
_WINDOW: Final = 64
_LEAST_HITS: Final = 3
_EVERY: Final = 8


class Pruning:
    def __init__(self, task: Task, choices: Sequence[Choice], picks: Picks, work: Work) -> None:
        self._task = task
        self._choices = choices
        self._picks = picks
        self._work = work
        options = [option for choice in choices for option in choice.options]
        work.spend(100 + len(task.view.devices) * len(options) // 2)
        self.depth = 1
        """How thorough the pruning is; what was looked at less thoroughly is worth another look."""
        self._symmetry = Symmetry(task, picks)
        self._blocks = Blocks(task, picks)
        self._budgets = Budgets(task.view)
        self._shares = Shares(task, picks)
        self._relevant, self._covered = _tails(choices)
        self._has_admin = any(option.admin for choice in choices for option in choice.options)
        self._shared = task.view.shareable.bit_count()
        self._vain: set[Any] = set()
        self._feasibility: Feasibility | None = None
        self._surrogates: Surrogates | None = None
        self._asked = self._hits = 0
        self._idle = False

    def look_closer(self) -> None:
        """Follows all constraints to the last value from now on, not only those of the current request."""
        self.depth = 2

    def look_ahead(self) -> bool:
        """Checks the feasibility of what is left from now on. Returns False if the task does not allow that check."""
        applies = is_orderless(self._task, self._choices)
        if applies:
            self.depth = 3
            self._feasibility = Feasibility(self._choices, self._picks, self)
            if self._budgets.size > 1:
                self._surrogates = Surrogates(self._task.view)
        return applies

    def is_shareable(self, rank: int) -> bool:
        return bool(self._task.view.shareable >> rank & 1)

    def alike(self, rank: int, domains: Sequence[int]) -> int:
        """Returns the device and those interchangeable with it, as bits; `domains`: open devices of each demand."""
        return self._symmetry.alike(rank) | self._blocks.alike(rank, domains)

    def narrowed(self, frame: Frame) -> int:
        """Returns the devices worth trying in the frame; none if no solution can follow."""
        if frame.state in self._vain:
            return 0
        self._asked += 1
        if self._idle and self._asked % _EVERY:
            return frame.left
        demands = self._demands(frame)
        left = 0 if self.refutation(demands) is not None else demands[0].bits & frame.left
        self._note(left != frame.left)
        if left and self._feasibility is not None and not self._feasible(demands):
            return 0
        return left

    def _note(self, hit: bool) -> None:
        """Whether bounds pay is judged anew after a number of frames."""
        self._hits += hit
        if self._asked % _WINDOW == 0:
            self._idle = self._hits < (1 if self._idle else _LEAST_HITS)
            self._hits = 0

    def _feasible(self, demands: list[Demand]) -> bool:
        """Whether the demands can be served, as far as half of the work that is left tells."""
        assert self._feasibility is not None
        if self._feasibility.follows_witness():
            return True
        work = self._work
        share = work.left // 2
        try:
            with work.share(share):
                return self._feasibility.solvable(demands)
        except WorkExhausted:
            if not work.left:
                raise
            self._feasibility = None
            return True

    def refutation(self, demands: Sequence[Demand]) -> Sequence[Demand] | None:
        """Returns demands that cannot all be served, None if no bound finds any. Removes devices that none can use."""
        shareable = self._task.view.shareable
        if (demand := bounds.by_count(demands)) is not None:
            self._work.spend(25 + 8 * len(demands))
            return (demand,)
        self._work.spend(self._price(demands))
        if not self._shares.fit(demands):
            return demands
        if (failed := self._broken(demands)) is not None:
            return failed
        if not bounds.by_matching(demands, shareable) or not self._budgets.affordable(demands, self._picks):
            return demands
        if self._surrogates is not None:
            self._work.spend(self._surrogates.size + 10 * len(demands))
            if self._surrogates.refute(demands, self._picks):
                return demands
        return None

    def _price(self, demands: Sequence[Demand]) -> int:
        """The work of computing all bounds, as measured: it grows with what they look at."""
        counters = self._budgets.size
        covered = sum(len(demand.alternatives[0].request.constraints) for demand in demands)
        return 25 + counters + len(demands) * (8 + counters + 2 * self._shared) + 9 * covered

    def _broken(self, demands: Sequence[Demand]) -> Sequence[Demand] | None:
        """Returns the demands of a constraint that cannot be satisfied; None if there is none."""
        shareable = self._task.view.shareable
        first = demands[0]
        covers: dict[Constraint, list[Demand]] = {}
        for demand in demands:
            for constraint in demand.alternatives[0].request.constraints:
                covers.setdefault(constraint, []).append(demand)
        for constraint, covered in covers.items():
            if any(
                constraint not in alternative.request.constraints
                for each in covered
                for alternative in each.alternatives
            ):
                covered = [
                    each
                    for each in covered
                    if all(constraint in alternative.request.constraints for alternative in each.alternatives)
                ]
            if not covered:
                continue
            if constraint.distinct:
                holds = bounds.by_distinction(covered, constraint)
            else:
                thorough = covered[0] is first or self.depth > 1
                holds = bounds.by_match(covered, constraint, shareable, thorough=thorough)
            if not holds:
                return covered
            if bounds.by_count(covered) is not None:
                return covered
        return None

    def _demands(self, frame: Frame) -> list[Demand]:
        choices = self._choices
        current = choices[frame.choice]
        request = current.options[frame.option]
        beyond = ~self._budgets.unaffordable(self._picks.left)
        left = frame.left & beyond
        if request.listed is not None:
            for rank in request.listed[frame.index + 1 :]:
                left |= self._open(request, current.claim) & 1 << rank
        demands = [Demand(current.claim, [Alternative(request, request.need - frame.index, left)], frame.choice)]
        for number in range(frame.choice + 1, len(choices)):
            choice = choices[number]
            alternatives = [
                Alternative(option, option.need, self._open(option, choice.claim) & beyond)
                for option in choice.options
                if option.need
            ]
            demands.append(Demand(choice.claim, alternatives, number))
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
        """Records that no solution follows from this state."""
        if len(self._vain) < _MOST_MEMORIES:
            self._vain.add(state)

    def state(self, frame: Frame) -> Any:
        """Returns a key of what decides whether a solution follows; equal for states with interchangeable devices."""
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
            tuple(frozenset(joined[-1:]) for joined in picks.compatibilities.values()),
        )

    def signature(self, demands: Sequence[Demand], kinds: Sequence[int]) -> Any:
        """Returns a key like `state` for demands in any order; ignores names of requests and counter sets."""
        covering = dict.fromkeys(
            c for demand in demands for alternative in demand.alternatives for c in alternative.request.constraints
        )
        partial = any(
            alternative.need < alternative.request.need for demand in demands for alternative in demand.alternatives
        )
        order = sorted(demands, key=lambda demand: kinds[demand.number])
        hidden = 0 if partial else self._task.view.shareable
        return (
            tuple(
                (
                    kinds[demand.number],
                    *[
                        (self._choices[demand.number].options.index(alternative.request), alternative.need)
                        for alternative in demand.alternatives
                    ],
                )
                for demand in order
            ),
            tuple(constraint.state for constraint in covering),
            self._blocks.canonical(
                [alternative.bits & ~hidden for demand in order for alternative in demand.alternatives]
            ),
            self._symmetry.standings(apart=partial),
        )


def _tails(choices: Sequence[Choice]) -> tuple[list[int], list[dict[Constraint, list[int]]]]:
    """Returns, from each choice on, the devices that can be picked and the choices that each constraint covers."""
    relevant, covered = [0], [dict[Constraint, list[int]]()]
    for number in range(len(choices) - 1, -1, -1):
        bits, own = relevant[-1], dict(covered[-1])
        for option in choices[number].options:
            bits |= option.candidates
        for constraint in dict.fromkeys(
            covering for option in choices[number].options for covering in option.constraints
        ):
            own[constraint] = [number, *own.get(constraint, ())]
        relevant.append(bits)
        covered.append(own)
    return relevant[:0:-1], covered[:0:-1]
