"""Policies: which of the possible devices to prefer. A policy puts them in order; the search takes the first that fit.

`kubernetes` keeps the order of publication, which is what Kubernetes picks by. `pack` prefers the device whose use
leaves the least unusable: the fullest shared device, the partition after which most fits on its GPU, the
smallest device, the device of a group that is no longer whole. `spread` is a preference for nodes whose devices are
free; on a node it is `kubernetes`. The scheduler prefers nodes by the same policy. Whatever the policy, the search
decides what is valid. What it gets is a view with its devices in the order of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from dray.allocation.devices import Values
from dray.allocation.inventory import Inventory
from dray.allocation.partitions import preferences
from dray.allocation.selectors import MOST_COLUMNS, Column, Selectors
from dray.allocation.views import MOST_INDEXES, AttributeIndex, View
from dray.api.caches import BoundedDict
from dray.api.objects import Object

_BILLION: Final = 10**9
ALIGNED_BY: Final = "resource.kubernetes.io/pcieRoot"


class Arrangement(View):
    """`order` lists the ranks of `base`, the most preferred first."""

    def __init__(self, base: View, order: Sequence[int]) -> None:
        self._base = base
        self._place = {rank: place for place, rank in enumerate(order)}
        self.node, self.labels, self.features, self.gates = base.node, base.labels, base.features, base.gates
        self.pools, self.slices = base.pools, base.slices
        self.devices = [base.devices[rank] for rank in order]
        self.homes = [base.homes[rank] for rank in order]
        self.counter_sets = {self._place[rank]: counter_sets for rank, counter_sets in base.counter_sets.items()}
        self.every = base.every
        self.shareable = self._moved(base.shareable)
        self.here = self._moved(base.here)
        self._indexes = BoundedDict(MOST_INDEXES)
        self._columns = BoundedDict(MOST_COLUMNS)
        """Cache: without it, refusing a partition took twice as long (the explanation asks for each device again)."""

    def _moved(self, bits: int) -> int:
        return sum(1 << self._place[rank] for rank in self.ranks(bits))

    @property
    def held(self) -> int:
        return self._moved(self._base.held)

    @property
    def shared(self) -> int:
        return self._moved(self._base.shared)

    @property
    def operable(self) -> int:
        return self._moved(self._base.operable)

    def tolerated(self, tolerations: Sequence[Object]) -> int:
        return self._moved(self._base.tolerated(tolerations))

    def column(self, expression: str, selectors: Selectors) -> Column:
        found = self._columns.get(expression)
        if found is None:
            column = self._base.column(expression, selectors)
            faults = {self._place[rank]: fault for rank, fault in column.faults.items()}
            found = self._columns[expression] = Column(self._moved(column.selected), faults)
        return found

    def index(self, attribute: str) -> AttributeIndex:
        index = self._indexes.get(attribute)
        if index is None:
            values: dict[int, Values] = self._base.index(attribute).values
            index = AttributeIndex({self._place[rank]: each for rank, each in values.items()})
            self._indexes[attribute] = index
        return index


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def arranged(self, inventory: Inventory, view: View) -> View:
        """Returns the view with its devices in order of preference."""


class InOrder:
    def __init__(self, name: str) -> None:
        self.name = name

    def arranged(self, inventory: Inventory, view: View) -> View:
        return view


class Pack:
    def __init__(self, name: str) -> None:
        self.name = name

    def arranged(self, inventory: Inventory, view: View) -> View:
        waiting = {
            (pool.driver, pool.name) for pool in view.pools if any(slice_.has_conditions for slice_ in pool.slices)
        }
        free = _free_by_group(view)
        sizes = _sizes(view)
        partitions = preferences(view)

        def preference(rank: int) -> tuple[Any, ...]:
            device = view.devices[rank]
            return (
                (device.driver, device.pool) in waiting,
                -_fullness(inventory, view, rank),
                partitions.get(rank, 1.0),
                sizes[rank],
                free.get((device.pool, device.values(ALIGNED_BY)), 0),
                rank,
            )

        return Arrangement(view, sorted(range(len(view.devices)), key=preference))


KUBERNETES: Final[Policy] = InOrder("kubernetes")
PACK: Final[Policy] = Pack("pack")
PACK_POWER: Final[Policy] = Pack("pack,power")
"""Same as `pack`; prefers nodes whose devices draw less power."""
SPREAD: Final[Policy] = InOrder("spread")
FIRST_FIT: Final[Policy] = InOrder("first-fit")
"""The first node that fits, in the order in which nodes came; to compare other policies with."""
POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy for policy in (KUBERNETES, PACK, PACK_POWER, SPREAD, FIRST_FIT)
}


def _fullness(inventory: Inventory, view: View, rank: int) -> int:
    """How much of a shared device is consumed, by its fullest capacity, in billionths."""
    device = view.devices[rank]
    usage = inventory.usage.devices.get(device.id)
    if usage is None or not device.shareable:
        return 0
    parts = [
        usage.consumed[name].nanos * _BILLION // capacity.value.nanos
        for name, capacity in device.capacity.items()
        if name in usage.consumed and capacity.value.nanos
    ]
    return max(parts, default=0)


def _sizes(view: View) -> list[int]:
    """The capacities of each device, each in billionths of the largest on the node, added up."""
    known = _known_sizes.get(view)
    if known is None:
        known = _known_sizes[view] = _added_up(view)
    return known


# A view lives until a slice changes. Adding up took an eighth of the time on nodes with 200 partitions.
_known_sizes: WeakKeyDictionary[View, list[int]] = WeakKeyDictionary()


def _added_up(view: View) -> list[int]:
    largest: dict[str, int] = {}
    for device in view.devices:
        for name, capacity in device.capacity.items():
            largest[name] = max(largest.get(name, 1), capacity.value.nanos)
    return [
        sum(each.value.nanos * _BILLION // largest[name] for name, each in device.capacity.items())
        for device in view.devices
    ]


def _free_by_group(view: View) -> dict[Any, int]:
    free: dict[Any, int] = {}
    for rank in view.ranks(view.every & ~view.held):
        device = view.devices[rank]
        key = (device.pool, device.values(ALIGNED_BY))
        free[key] = free.get(key, 0) + 1
    return free
