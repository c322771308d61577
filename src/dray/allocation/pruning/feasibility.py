"""Whether the demands that are left can be served at all, asked in whatever order answers soonest.

The search itself must follow the order of Kubernetes, and may thrash in it: a request served early spoils one that
comes late. Here the request with the fewest devices left is served first, those that failed most often before others,
and from time to time everything is begun anew with what was learnt. What is found impossible is cut from the search;
what is found possible is a witness: along it the search cannot fail and need not ask again.

It applies where the order of picks does not decide whether they are valid (`is_orderless`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.allocation.picks import Picks
from dray.allocation.pruning.demands import Alternative, Demand
from dray.allocation.requests import Choice, Request, Task
from dray.api.resource_claims import MAX_DEVICES

if TYPE_CHECKING:
    from dray.allocation.pruning import Pruning

_MOST_PICKS: Final = 200
_FIRST_ROUND: Final = 30
_MOST_MEMORIES: Final = 50_000


class _Restart(Exception):
    """Too many failures in this round."""


class Feasibility:
    def __init__(self, choices: Sequence[Choice], picks: Picks, pruning: Pruning) -> None:
        self._choices = choices
        self._picks = picks
        self._pruning = pruning
        self._kinds = _kinds(choices)
        self._weights = [1] * len(choices)
        self._sizes = [max(map(_size, choice.options)) for choice in choices]
        self._vain: set[Any] = set()
        self._failures = 0
        self._round = 0
        self._witness: dict[int, tuple[int, list[int]]] = {}
        """The picks of a solution: option and ranks by choice."""

    def follows_witness(self) -> bool:
        """Whether the present picks are the beginning of the solution that was found last."""
        if not self._witness:
            return False
        made: dict[int, list[int]] = {}
        for pick in self._picks.made:
            option, ranks = self._witness[pick.choice.number]
            own = made.setdefault(pick.choice.number, [])
            own.append(pick.rank)
            if pick.option != option or ranks[: len(own)] != own:
                return False
        return True

    def solvable(self, demands: list[Demand]) -> bool:
        """Whether a solution follows from the present picks; raises WorkExhausted."""
        made = len(self._picks.made)
        self._round = _FIRST_ROUND
        while True:
            self._failures = 0
            try:
                return self._serve([demand.copied() for demand in demands], made)
            except _Restart:
                self._round *= 2
            finally:
                while len(self._picks.made) > made:
                    self._picks.undo()

    def _serve(self, demands: list[Demand], made: int) -> bool:
        if not demands:
            self._witness = {}
            for pick in self._picks.made:
                self._witness.setdefault(pick.choice.number, (pick.option, []))[1].append(pick.rank)
            for _, ranks in self._witness.values():
                ranks.sort()
            return True
        blamed = self._pruning.refutation(demands)
        if blamed is not None:
            for demand in blamed:
                self._weights[demand.number] += 1
            self._fail()
            return False
        key = self._pruning.signature(demands, self._kinds)
        if key in self._vain:
            self._fail()
            return False
        if self._branch(demands, min(range(len(demands)), key=lambda at: self._urgency(demands[at])), made):
            return True
        if len(self._vain) < _MOST_MEMORIES:
            self._vain.add(key)
        return False

    def _fail(self) -> None:
        self._failures += 1
        if self._failures > self._round:
            raise _Restart

    def _urgency(self, demand: Demand) -> float:
        """The less slack and the more failures, the more urgent; of equals the one that takes most."""
        slack = demand.bits.bit_count() - demand.need + 1
        return slack / self._weights[demand.number] - 1e-3 * self._sizes[demand.number]

    def _branch(self, demands: list[Demand], at: int, made: int) -> bool:
        """Tries the devices of one demand."""
        demand, picks = demands[at], self._picks
        choice = self._choices[demand.number]
        for alternative in demand.alternatives:
            left = alternative.bits
            while left:
                low = left & -left
                rank = low.bit_length() - 1
                left ^= low
                if picks.has_capacity(alternative.request, rank) and picks.has_counters(rank):
                    picks.take(choice, choice.options.index(alternative.request), rank)
                    found = self._serve(self._after(demands, at, alternative, rank), made)
                    picks.undo()
                    if found:
                        return True
                left &= ~self._pruning.alike(
                    rank, [option.bits for demand in demands for option in demand.alternatives]
                )
        return False

    def _after(self, demands: list[Demand], at: int, alternative: Alternative, rank: int) -> list[Demand]:
        """Returns the demands that remain once the device is picked."""
        bit = 1 << rank
        shareable = self._pruning.is_shareable(rank)
        touched = {id(constraint) for constraint in alternative.request.constraints}
        left = []
        for position, demand in enumerate(demands):
            if position == at:
                if alternative.need > 1:
                    above = alternative.bits >> rank + 1 << rank + 1
                    left.append(
                        Demand(
                            demand.claim,
                            [self._narrowed(alternative, alternative.need - 1, above, touched)],
                            demand.number,
                        )
                    )
                continue
            alternatives = [
                self._narrowed(option, option.need, option.bits if shareable else option.bits & ~bit, touched)
                for option in demand.alternatives
            ]
            left.append(Demand(demand.claim, alternatives, demand.number))
        return left

    @staticmethod
    def _narrowed(alternative: Alternative, need: int, bits: int, touched: set[int]) -> Alternative:
        for constraint in alternative.request.constraints:
            if id(constraint) in touched:
                bits &= constraint.mask(alternative.request)
        return Alternative(alternative.request, need, bits)


def _size(option: Request) -> float:
    """How much of a device a pick consumes at most."""
    return max(
        (amount.nanos / 10**9 for amounts in option.amounts.values() for amount in amounts.values()), default=0.0
    )


def is_orderless(task: Task, choices: Sequence[Choice]) -> bool:
    """Whether the same picks are valid in any order, and few enough."""
    options = [option for choice in choices for option in choice.options]
    if any(option.admin for option in options):
        return False
    if sum(max(option.need for option in choice.options) for choice in choices) > _MOST_PICKS:
        return False
    most = [0] * len(task.claims)
    for choice in choices:
        most[choice.claim] += max(option.need for option in choice.options)
    if max(most, default=0) > MAX_DEVICES:
        return False
    # A device whose value is unknown is admitted first or not at all.
    for option in options:
        for constraint in option.constraints:
            index = constraint.index(option)
            if option.candidates & index.present & ~index.valued:
                return False
    return True


def _kinds(choices: Sequence[Choice]) -> list[int]:
    """Choices that ask for the same get the same number."""
    known: dict[Any, int] = {}
    kinds = []
    for choice in choices:
        key = tuple(
            (
                option.need,
                option.candidates,
                tuple(option.constraints),
                tuple(
                    sorted(
                        (rank, *sorted((n, a.nanos) for n, a in each.items())) for rank, each in option.amounts.items()
                    )
                ),
            )
            for option in choice.options
        )
        kinds.append(known.setdefault(key, len(known)))
    return kinds
