"""Partitions: devices that draw from one counter set, such as the MIG partitions of a GPU.

`PartitionTable` knows which partitions exclude each other, and how much fits into what is left: for each kind of
partition as many as possible, and the mean over the kinds. `pack` takes the partition after which most fits, and
prefers full GPUs, and GPUs with many partitions in use: a GPU with few of them is more likely to be whole again soon.
So GPUs stay whole, and a small partition does not lie where only a larger one can be. All GPUs of a model share a
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from dray.allocation.counters import CounterSets
from dray.allocation.views import View
from dray.api.caches import BoundedDict

_MOST_STATES: Final = 4096
_FREE: Final = 0.1
_OPENED: Final = 0.2
# What counts beside the room that is lost: the free part of the device, and by how much longer the device is in use.
# If partitions run equally long on average, n of them are all gone after 1 + 1/2 + ... + 1/n run times, so one more
# adds 1/(n + 1). In simulated clusters of 32 A100 and H100 with eight mixes of profiles, these values keep a third more
# GPUs whole than 0.1 and 0, and as much is accepted.
LocalCost = tuple[tuple[int, int], ...]
"""(counter of the set, nanos) pairs."""
Left = tuple[int, ...]
"""The remaining amount of each counter of a set."""


class PartitionTable:
    def __init__(self, totals: Left, costs: tuple[LocalCost, ...]) -> None:
        """`costs` are those of all partitions, in the order of publication."""
        self._totals = totals
        self._costs = costs
        kinds: dict[tuple[int, ...], list[LocalCost]] = {}
        for cost in costs:
            kinds.setdefault(tuple(sorted(amount for _, amount in cost)), []).append(cost)
        self._kinds = [(self._size(kind[0]), kind) for kind in kinds.values()]
        self._room: BoundedDict[Left, float] = BoundedDict(_MOST_STATES)
        self._lost: BoundedDict[Left, Sequence[float | None]] = BoundedDict(_MOST_STATES)
        """Cache: without it, allocating a partition on nodes with 200 of them took a third longer."""

    def _size(self, cost: LocalCost) -> float:
        """The part of all counters that a partition takes, between 0 and 1."""
        parts = [amount / self._totals[position] for position, amount in cost if self._totals[position]]
        return sum(parts) / max(1, sum(1 for total in self._totals if total))

    def free(self, left: Left) -> float:
        """Returns the free fraction of the counters, between 0 and 1."""
        parts = [amount / total for amount, total in zip(left, self._totals, strict=True) if total]
        return sum(parts) / len(parts) if parts else 0.0

    def room(self, left: Left) -> float:
        """Returns how much still fits: the mean over the kinds of partitions, between 0 and 1."""
        known = self._room.get(left)
        if known is None:
            sizes = [size * _most(kind, left) for size, kind in self._kinds]
            known = self._room[left] = sum(sizes) / len(sizes)
        return known

    def lost(self, left: Left) -> Sequence[float | None]:
        """Returns the room that each partition takes from others; None if it does not fit."""
        known = self._lost.get(left)
        if known is None:
            room = self.room(left)
            known = self._lost[left] = [
                room - self.room(_without(left, cost)) if _fits(cost, left) else None for cost in self._costs
            ]
        return known


def _fits(cost: LocalCost, left: Sequence[int]) -> bool:
    return all(left[position] >= amount for position, amount in cost)


def _without(left: Left, cost: LocalCost) -> Left:
    rest = list(left)
    for position, amount in cost:
        rest[position] -= amount
    return tuple(rest)


def _most(costs: Sequence[LocalCost], left: Left) -> int:
    """Returns how many partitions of one kind fit."""
    number, rest = 0, list(left)
    for cost in costs:
        if _fits(cost, rest):
            number += 1
            for position, amount in cost:
                rest[position] -= amount
    return number


@lru_cache(maxsize=256)
def _table(totals: Left, costs: tuple[LocalCost, ...]) -> PartitionTable:
    return PartitionTable(totals, costs)


class Partition(NamedTuple):
    """A partition of one counter set, by its rank in a view."""

    rank: int
    cost: LocalCost


class PartitionedDevice:
    """A counter set of a view: a physical device, and its partitions."""

    def __init__(self, counter_sets: CounterSets, positions: Sequence[int], partitions: Sequence[Partition]) -> None:
        self._counter_sets = counter_sets
        self._positions = positions
        self.partitions = partitions
        self.table = _table(
            tuple(counter_sets.totals[position] for position in positions),
            tuple(partition.cost for partition in partitions),
        )

        self._bits = sum(1 << partition.rank for partition in partitions)

    @property
    def left(self) -> Left:
        left = self._counter_sets.left
        return tuple(left[position] for position in self._positions)

    def in_use(self, used: int) -> int:
        """Returns the number of this device's partitions in use."""
        return (used & self._bits).bit_count()


def partitioned_devices(view: View) -> list[PartitionedDevice]:
    """The physical devices of a view that are published as partitions. Devices that draw from several counter sets are
    left out."""
    known = _known.get(view)
    if known is None:
        known = _known[view] = list(_partitioned(view))
    return known


# A view lives until a slice changes, and is asked for every pod that could be placed on the node.
_known: WeakKeyDictionary[View, list[PartitionedDevice]] = WeakKeyDictionary()


def _partitioned(view: View) -> Iterator[PartitionedDevice]:
    ranks: dict[tuple[int, str], list[int]] = {}
    for rank, counter_sets in view.counter_sets.items():
        consumes = view.devices[rank].consumes
        if len(consumes) == 1:
            ranks.setdefault((id(counter_sets), consumes[0].counter_set), []).append(rank)
    for (_, name), members in ranks.items():
        counter_sets = view.counter_sets[members[0]]
        positions = [position for position, (set_name, _) in enumerate(counter_sets.names) if set_name == name]
        local = {position: number for number, position in enumerate(positions)}
        partitions = [
            Partition(
                rank, tuple((local[position], amount) for position, amount in counter_sets.cost(view.devices[rank]))
            )
            for rank in members
        ]
        yield PartitionedDevice(counter_sets, positions, partitions)


def preferences(view: View) -> dict[int, float]:
    """Returns the cost of each free partition that fits: room taken from others, and how empty its device is."""
    found, used = {}, view.held | view.shared
    for device in partitioned_devices(view):
        table, left = device.table, device.left
        use = _FREE * table.free(left) + _OPENED / (device.in_use(used) + 1)
        for (rank, _), lost in zip(device.partitions, table.lost(left), strict=True):
            if lost is not None:
                found[rank] = lost + use
    return found
