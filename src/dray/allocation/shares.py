"""Shared capacity as a bound: what the demands that are left must consume at least, against what is left.

A device serves one request at most once, so a request that wants more devices than there are exclusive ones needs
shares, each at its cheapest. Together they must fit, by amount and by number.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocation.demands import Demand, Way
from dray.allocation.picks import Picks
from dray.allocation.requests import Task


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
            for way in demand.ways:
                self._drop_full(way)
            if not demand.drop_impossible():
                return False
        union = 0
        for demand in demands:
            union |= demand.bits
        left = {rank: self._picks.capacity_left(rank) for rank in self._view.ranks(union & self._view.shareable)}
        names = {name for each in left.values() for name in each}
        return all(self._fits(name, demands, left) for name in names)

    def _drop_full(self, way: Way) -> None:
        amounts = way.request.amounts
        for rank in self._view.ranks(way.bits & self._view.shareable):
            if rank in amounts and not self._picks.has_capacity(way.request, rank):
                way.bits &= ~(1 << rank)

    def _fits(self, name: str, demands: Sequence[Demand], left: dict[int, dict[str, int]]) -> bool:
        total, number, cheapest = 0, 0, None
        for demand in demands:
            needs = [self._need(way, name) for way in demand.ways]
            total += min(need * amount for need, amount in needs)
            number += min(need for need, _ in needs)
            positive = min(amount for _, amount in needs)
            cheapest = positive if cheapest is None else min(cheapest, positive)
        room = [max(0, each[name]) for each in left.values() if name in each]
        if total > sum(room):
            return False
        if not cheapest or len(room) < len(left):
            return True
        return number <= sum(min(each // cheapest, len(demands)) for each in room)

    def _need(self, way: Way, name: str) -> tuple[int, int]:
        """How many shares the request needs at least, and the least one consumes of the capacity."""
        shareable = way.bits & self._view.shareable
        need = max(0, way.need - (way.bits & ~shareable).bit_count())
        amounts = way.request.amounts
        least = min(
            (amounts[rank][name].nanos if name in amounts.get(rank, {}) else 0 for rank in self._view.ranks(shareable)),
            default=0,
        )
        return need, least
