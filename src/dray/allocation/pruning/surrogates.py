"""Counters weighed against each other: every weighted sum of counters is a budget too, and one of them may be short.

Where devices that are cheap in one counter are dear in another, no counter alone is short. The weights are moved
towards the counters that the cheapest choice overdraws, a few times at each place; they are kept from one to the next.
A device that costs more than the cheapest choice leaves over is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.allocation.picks import Picks
from dray.allocation.pruning.demands import Alternative, Demand
from dray.allocation.views import View

_ROUNDS: Final = 4
_FIRST_ROUNDS: Final = 24
# Sums of floating point numbers are that exact at least.
_TOLERANCE: Final = 1e-9


class Surrogates:
    """The counters of a view as fractions of their totals. Shareable devices may draw nothing, so they are free."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._counters = [
            (counter_sets, position)
            for counter_sets in dict.fromkeys(view.counter_sets.values())
            for position, total in enumerate(counter_sets.totals)
            if total > 0
        ]
        index = {counter: number for number, counter in enumerate(self._counters)}
        self._draws: dict[int, list[tuple[int, float]]] = {}
        for rank, counter_sets in view.counter_sets.items():
            device = view.devices[rank]
            if not device.shareable:
                self._draws[rank] = [
                    (index[counter_sets, position], amount / counter_sets.totals[position])
                    for position, amount in counter_sets.cost(device)
                    if (counter_sets, position) in index
                ]
        self.size = sum(map(len, self._draws.values()))
        self._weights = [1.0] * len(self._counters)
        self._started = False

    def refute(self, demands: Sequence[Demand], picks: Picks) -> bool:
        """Whether some weighted sum is short; takes out devices that are too dear."""
        left = [
            max(0, (picks.left.get(counter_sets) or counter_sets.left)[position]) / counter_sets.totals[position]
            for counter_sets, position in self._counters
        ]
        rounds, self._started = _ROUNDS if self._started else _FIRST_ROUNDS, True
        for number in range(rounds):
            loads = self._loads(demands)
            least, usage = self._least(demands, loads)
            budget = sum(weight * each for weight, each in zip(self._weights, left, strict=True))
            slack = budget - least + _TOLERANCE * (budget + 1)
            if slack < 0:
                return True
            if self._drop_dear(demands, loads, slack):
                return True
            self._move(usage, left, 1.0 / (1 + number))
        return False

    def _loads(self, demands: Sequence[Demand]) -> dict[int, float]:
        union = 0
        for demand in demands:
            union |= demand.bits
        weights, draws = self._weights, self._draws
        return {
            rank: sum(weights[counter] * amount for counter, amount in draws.get(rank, ()))
            for rank in self._view.ranks(union)
        }

    def _least(self, demands: Sequence[Demand], loads: dict[int, float]) -> tuple[float, list[float]]:
        """The cheapest choice, each demand looked at alone: what it costs, and what it draws from each counter."""
        total, usage = 0.0, [0.0] * len(self._weights)
        for demand in demands:
            chosen = min(
                (self._cheapest(alternative, loads) for alternative in demand.alternatives), key=lambda each: each[0]
            )
            total += chosen[0]
            for rank in chosen[1]:
                for counter, amount in self._draws.get(rank, ()):
                    usage[counter] += amount
        return total, usage

    def _cheapest(self, alternative: Alternative, loads: dict[int, float]) -> tuple[float, list[int]]:
        ranks = sorted(self._view.ranks(alternative.bits), key=loads.__getitem__)[: alternative.need]
        return sum(loads[rank] for rank in ranks), ranks

    def _drop_dear(self, demands: Sequence[Demand], loads: dict[int, float], slack: float) -> bool:
        """Takes out what costs more than the dearest of the cheapest choice and all that is left over."""
        for demand in demands:
            if len(demand.alternatives) > 1:
                continue
            alternative = demand.alternatives[0]
            ranks = self._view.ranks(alternative.bits)
            most = sorted(map(loads.__getitem__, ranks))[alternative.need - 1] + slack
            for rank in ranks:
                if loads[rank] > most:
                    alternative.bits &= ~(1 << rank)
            if not alternative.possible:
                return True
        return False

    def _move(self, usage: Sequence[float], left: Sequence[float], step: float) -> None:
        for counter, (used, there) in enumerate(zip(usage, left, strict=True)):
            most = max(used, there)
            if most > 0:
                self._weights[counter] *= 2 ** (step * (used - there) / most)
