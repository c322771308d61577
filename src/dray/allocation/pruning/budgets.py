"""Counters as budgets: what the demands that are left must draw at least, against what is left.

Every sum of counters is a budget too, so next to each counter stands the sum of all counters of one name: that sees
that twelve slices of memory do not fit into ten, whichever cards they come from. A third question is how many devices
one counter set can still carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.allocation.counters import CounterSets
from dray.allocation.devices import Consumption
from dray.allocation.picks import Picks, SetKey
from dray.allocation.pruning.demands import Alternative, Demand
from dray.allocation.views import View


@dataclass(slots=True)
class Budget:
    """One or several counters, and the devices that draw from them by amount, cheapest first."""

    counters: list[tuple[CounterSets, int]]
    steps: list[tuple[int, int]]
    """(amount, bits)"""
    drawing: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("/".join(counter_sets.names[position]) for counter_sets, position in self.counters)

    def left(self, remaining: dict[CounterSets, list[int]]) -> int:
        # An overdrawn counter blocks its own pool; it takes nothing from the others.
        return sum(
            max(0, (remaining.get(counter_sets) or counter_sets.left)[position])
            for counter_sets, position in self.counters
        )

    def least(self, alternative: Alternative) -> int:
        """The least that picking as many devices as needed can draw."""
        need = alternative.need - (alternative.bits & ~self.drawing).bit_count()
        total = 0
        for amount, bits in self.steps:
            if need <= 0:
                break
            number = min(need, (bits & alternative.bits).bit_count())
            total += number * amount
            need -= number
        return total


class Budgets:
    """Counter budgets of a view. Shareable devices are left out: they may draw nothing."""

    def __init__(self, view: View) -> None:
        amounts: dict[tuple[CounterSets, int], dict[int, int]] = {}
        self._sets: dict[SetKey, int] = {}
        self._by_group: dict[SetKey, dict[frozenset[str], int]] = {}
        self._shareable = view.shareable
        for rank, counter_sets in view.counter_sets.items():
            device = view.devices[rank]
            if device.shareable:
                continue
            for position, amount in counter_sets.cost(device):
                by_amount = amounts.setdefault((counter_sets, position), {})
                by_amount[amount] = by_amount.get(amount, 0) | 1 << rank
            if len(device.consumes) == 1:
                self._file(counter_sets, device.consumes[0], 1 << rank)
        heeded = view.gates["DRADeviceCompatibilityGroups"]
        self._groups = {key: groups for key, groups in self._by_group.items() if heeded and len(groups) > 1}
        self._single = [_budget([key], by_amount) for key, by_amount in amounts.items()]
        self._sums = [budget for budget in self._sum_by_name(amounts) if len(budget.counters) > 1]
        self._of_set: dict[SetKey, list[Budget]] = {}
        for budget in self._single:
            counter_sets, position = budget.counters[0]
            self._of_set.setdefault((counter_sets, counter_sets.names[position][0]), []).append(budget)

    @property
    def size(self) -> int:
        return len(self._single) + len(self._sums)

    def _file(self, counter_sets: CounterSets, consumed: Consumption, bit: int) -> None:
        key = (counter_sets, consumed.counter_set)
        self._sets[key] = self._sets.get(key, 0) | bit
        by_group = self._by_group.setdefault(key, {})
        for group in [frozenset([name]) for name in consumed.groups] or [frozenset[str]()]:
            by_group[group] = by_group.get(group, 0) | bit

    @staticmethod
    def _sum_by_name(amounts: dict[tuple[CounterSets, int], dict[int, int]]) -> Iterable[Budget]:
        names: dict[str, list[tuple[CounterSets, int]]] = {}
        for counter_sets, position in amounts:
            names.setdefault(counter_sets.names[position][1], []).append((counter_sets, position))
        for keys in names.values():
            per_device: dict[int, int] = {}
            for key in keys:
                for amount, bits in amounts[key].items():
                    while bits:
                        low = bits & -bits
                        bits ^= low
                        per_device[low] = per_device.get(low, 0) + amount
            by_amount: dict[int, int] = {}
            for low, amount in per_device.items():
                by_amount[amount] = by_amount.get(amount, 0) | low
            yield _budget(keys, by_amount)

    def unaffordable(self, remaining: dict[CounterSets, list[int]]) -> int:
        """Devices that draw more than is left."""
        bits = 0
        for budget in self._single:
            left = budget.left(remaining)
            for amount, holders in reversed(budget.steps):
                if amount <= left:
                    break
                bits |= holders
        return bits

    def affordable(self, demands: Sequence[Demand], picks: Picks) -> bool:
        """Whether the demands can be served with what is left, budget by budget."""
        return not self._single or (self.shortage(demands, picks) is None and self._carried(demands, picks))

    def shortage(self, demands: Sequence[Demand], picks: Picks) -> tuple[Budget, int] | None:
        """A budget that does not suffice, and what would be drawn from it at least."""
        for budget in (*self._single, *self._sums):
            least = sum(min(map(budget.least, demand.alternatives)) for demand in demands)
            if least and least > budget.left(picks.left):
                return budget, least
        return None

    def _carried(self, demands: Sequence[Demand], picks: Picks) -> bool:
        """Whether the counter sets can carry as many devices as are needed, each at its cheapest."""
        exclusive = [demand for demand in demands if demand.exclusive]
        union = 0
        for demand in exclusive:
            union |= demand.bits
        # A shareable device may serve several requests.
        everything = [] if union & self._shareable else [(sum(demand.need for demand in exclusive), union)]
        singles = [
            (alternative.need, alternative.bits)
            for demand in demands
            if len(demand.alternatives) == 1
            for alternative in demand.alternatives
        ]
        return all(self._capacity(bits, picks) >= need for need, bits in everything + singles)

    def _capacity(self, bits: int, picks: Picks) -> int:
        """How many of the devices could be picked at most, as far as single counter sets tell."""
        total = 0
        for key, members in self._sets.items():
            own = bits & members
            if own:
                bits &= ~members
                total += max(self._most(key, part, picks) for part in self._compatible(key, own, picks))
        return total + bits.bit_count()

    def _compatible(self, key: SetKey, own: int, picks: Picks) -> list[int]:
        """The devices of a set that can be together: those without groups, or those of one group."""
        groups = self._groups.get(key)
        if groups is None:
            return [own]
        compatibility = picks.compatibility(*key)
        return [own & bits for group, bits in groups.items() if compatibility.admits(group)] or [0]

    def _most(self, key: SetKey, own: int, picks: Picks) -> int:
        """How many fit into each counter of the set, cheapest first."""
        most = own.bit_count()
        for budget in self._of_set.get(key, ()):
            left = budget.left(picks.left)
            number = (own & ~budget.drawing).bit_count()
            for amount, holders in budget.steps:
                if amount > 0:
                    fitting = min((holders & own).bit_count(), left // amount)
                    number += fitting
                    left -= fitting * amount
            most = min(most, number)
        return most


def _budget(counters: list[tuple[CounterSets, int]], by_amount: dict[int, int]) -> Budget:
    drawing = 0
    for amount, bits in by_amount.items():
        if amount > 0:
            drawing |= bits
    return Budget(counters, sorted(by_amount.items()), drawing)
