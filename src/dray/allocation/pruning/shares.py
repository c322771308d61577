"""Shared capacity as a bound: what the demands that are left must consume at least, against what is left.

A device serves one request at most once, so a request that wants more devices than there are exclusive ones needs
shares, each at its cheapest. Together they must fit, by amount and by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from dray.allocation.picks import Picks
from dray.allocation.pruning.demands import Alternative, Demand
from dray.allocation.requests import Task

_MOST_UNITS: Final = 4096


class Shares:
    def __init__(self, task: Task, picks: Picks) -> None:
        self._view = task.view
        self._picks = picks
        self._metered = any(option.amounts for choice in task.choices for option in choice.options)

    def fit(self, demands: Sequence[Demand]) -> bool:
        """Whether the shares fit into what is left; takes out devices that have too little for a request."""
        if not self._metered:
            return True
        for demand in demands:
            for alternative in demand.alternatives:
                self._drop_full(alternative)
            if not demand.drop_impossible():
                return False
        union = 0
        for demand in demands:
            union |= demand.bits
        left = {rank: self._picks.capacity_left(rank) for rank in self._view.ranks(union & self._view.shareable)}
        names = {name for amounts in left.values() for name in amounts}
        return all(self._fits(name, demands, left) for name in names) and all(map(Demand.drop_impossible, demands))

    def _drop_full(self, alternative: Alternative) -> None:
        amounts = alternative.request.amounts
        for rank in self._view.ranks(alternative.bits & self._view.shareable):
            if rank in amounts and not self._picks.has_capacity(alternative.request, rank):
                alternative.bits &= ~(1 << rank)

    def _fits(self, name: str, demands: Sequence[Demand], left: dict[int, dict[str, int]]) -> bool:
        total, number, cheapest = 0, 0, None
        for demand in demands:
            needs = [self._need(alternative, name) for alternative in demand.alternatives]
            total += min(need * amount for need, amount in needs)
            number += min(need for need, _ in needs)
            positive = min(amount for _, amount in needs)
            cheapest = positive if cheapest is None else min(cheapest, positive)
        room = [max(0, amounts[name]) for amounts in left.values() if name in amounts]
        if total > sum(room):
            return False
        if not cheapest or len(room) < len(left):
            return True
        if number > sum(min(amount // cheapest, len(demands)) for amount in room):
            return False
        return self._fills(name, demands, total, {rank: max(0, each[name]) for rank, each in left.items()})

    def _fills(self, name: str, demands: Sequence[Demand], total: int, room: dict[int, int]) -> bool:
        """Whether what no share is small enough for can be spared; takes out devices where a share would waste more."""
        sizes = [
            sorted({amounts[name].nanos for amounts in alternative.request.amounts.values() if name in amounts})
            for demand in demands
            for alternative in demand.alternatives
        ]
        unit = math.gcd(*(size for each in sizes for size in each))
        if max(room.values()) > unit * _MOST_UNITS:
            return True
        # Bit n stands for a sum of n units that some of the demands come to.
        sums = 1
        for each in sizes:
            reached = sums
            for size in each:
                reached |= sums << size // unit
            sums = reached
        most = {amount: (sums & (2 << amount // unit) - 1).bit_length() - 1 for amount in set(room.values())}
        spare = sum(most[amount] for amount in room.values()) - -(-total // unit)
        if spare < 0:
            return False
        for demand in demands:
            if len(demand.alternatives) == 1 and not demand.bits & ~self._view.shareable:
                self._drop_wasteful(demand.alternatives[0], name, room, unit, sums, most, spare)
        return True

    def _drop_wasteful(
        self,
        alternative: Alternative,
        name: str,
        room: dict[int, int],
        unit: int,
        sums: int,
        most: dict[int, int],
        spare: int,
    ) -> None:
        """Takes out devices that cannot be filled, with a share of the request in them, but for what can be spared."""
        fits: dict[tuple[int, int], bool] = {}
        for rank in self._view.ranks(alternative.bits):
            size = (
                alternative.request.amounts[rank][name].nanos // unit
                if name in alternative.request.amounts.get(rank, {})
                else 0
            )
            key = (size, room[rank])
            if key not in fits:
                beside = most[room[rank]] - size
                fits[key] = beside >= 0 and bool(sums >> max(0, beside - spare) & (2 << min(beside, spare)) - 1)
            if not fits[key]:
                alternative.bits &= ~(1 << rank)

    def _need(self, alternative: Alternative, name: str) -> tuple[int, int]:
        """How many shares the request needs at least, and the least one consumes of the capacity."""
        shareable = alternative.bits & self._view.shareable
        need = max(0, alternative.need - (alternative.bits & ~shareable).bit_count())
        amounts = alternative.request.amounts
        least = min(
            (amounts[rank][name].nanos if name in amounts.get(rank, {}) else 0 for rank in self._view.ranks(shareable)),
            default=0,
        )
        return need, least
