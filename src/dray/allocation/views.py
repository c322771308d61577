"""A node's view of the inventory: its devices in the order of the search, and what is known of them as bitsets.

A device's rank is its place among all usable devices of the node: by pool, then slice, then the order of
publication. Bit `1 << rank` stands for it in every bitset. A view lives until a slice or the node changes; what
claims hold is read from the slices when asked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from dray.allocation import taints
from dray.allocation.counters import CounterSets
from dray.allocation.devices import NO_VALUE, Device, Values, is_scalar
from dray.allocation.pools import Pool, PoolState
from dray.allocation.selectors import MOST_COLUMNS, Column, Selectors
from dray.allocation.slices import Slice, device_targets
from dray.allocation.usage import Usage
from dray.api.caches import BoundedDict
from dray.api.gates import FeatureGates
from dray.api.objects import Object, mapping, status_of

NODE_OPERATIONS = "DRAOptionalNodeOperations"
_serials = count()


MOST_INDEXES: Final = 64
"""How many attributes a view remembers the values of."""


class AttributeIndex:
    """An index of one attribute: `holders[value]` are the devices with a value, as bits; `values[rank]` the value sets.

    `present` are the devices that have the attribute, `valued` those of them whose value is known; `sizes` groups the
    devices by their number of values, fewest first.
    """

    __slots__ = ("holders", "present", "sizes", "valued", "values")

    def __init__(self, values: dict[int, Values]) -> None:
        self.values = values
        self.present = self.valued = 0
        self.holders: dict[tuple[str, Any], int] = {}
        sizes: dict[int, int] = {}
        for rank, each in values.items():
            bit = 1 << rank
            self.present |= bit
            if each:
                self.valued |= bit
            sizes[len(each)] = sizes.get(len(each), 0) | bit
            for value in each:
                self.holders[value] = self.holders.get(value, 0) | bit
        self.sizes = sorted(sizes.items())


class Occupancy:
    """The held and shared devices of a view, recomputed when a claim has changed."""

    __slots__ = ("_revision", "_slices", "_usage", "held", "shared")

    def __init__(self, slices: Sequence[tuple[Slice, int]], usage: Usage) -> None:
        self._slices, self._usage = slices, usage
        self._revision = -1
        self.held = self.shared = 0

    def current(self) -> Occupancy:
        if self._revision != self._usage.revision:
            self._revision = self._usage.revision
            self.held = self.shared = 0
            for slice_, offset in self._slices:
                if slice_.held or slice_.shared:
                    self.held |= slice_.held << offset
                    self.shared |= slice_.shared << offset
        return self


def _bits_of(slices: Sequence[tuple[Slice, int]], test: Callable[[Slice], bool]) -> int:
    """Returns the devices of the slices that pass the test, as bits."""
    bits = 0
    for slice_, offset in slices:
        if test(slice_):
            bits |= ((1 << len(slice_.devices)) - 1) << offset
    return bits


class View:
    def __init__(
        self,
        node: Object,
        pools: Sequence[Pool],
        counter_sets: Mapping[int, CounterSets],
        usage: Usage,
        gates: FeatureGates,
    ) -> None:
        """`counter_sets` are those of the pools that have any, by the position of the pool."""
        self._identify(node)
        self.serial = next(_serials)
        """A new number after each publication; equal for nodes that see the same slices."""
        self.gates = gates
        self.pools = list(pools)
        self.slices: list[tuple[Slice, int]] = []
        self.devices: list[Device] = []
        self.counter_sets: dict[int, CounterSets] = {}
        """Counter sets by rank of the device, for devices that draw from counters."""
        self.homes: list[Slice] = []
        for position, pool in enumerate(pools):
            self._add(pool, counter_sets.get(position))
        self.every = (1 << len(self.devices)) - 1
        self._occupancy = Occupancy(self.slices, usage)
        self._skipping = _bits_of(self.slices, lambda slice_: bool(slice_.skip_node_operations))
        self.shareable = self._where(lambda device: device.shareable)
        self.here = self._selected_here()
        self._tainted = self._where(lambda device: bool(device.taints)) if gates["DRADeviceTaints"] else 0
        self._columns: BoundedDict[str, Column] = BoundedDict(MOST_COLUMNS)
        self._indexes: BoundedDict[str, AttributeIndex] = BoundedDict(MOST_INDEXES)

    def _identify(self, node: Object) -> None:
        self._document = node
        metadata = node["metadata"]
        self.node: str = metadata["name"]
        self.labels: Mapping[str, str] = dict(mapping(metadata.get("labels")))
        self.features: tuple[str, ...] = tuple(status_of(node).get("declaredFeatures") or ())

    def seen_from(self, node: Object) -> View:
        """Returns a view of the same slices for another node; shares everything but the node."""
        other = copy.copy(self)
        other._identify(node)
        other.here = other._selected_here()
        return other

    def _add(self, pool: Pool, counter_sets: CounterSets | None) -> None:
        if pool.state is not PoolState.COMPLETE:
            return
        for slice_ in pool.slices:
            if not slice_.devices:
                continue
            self.slices.append((slice_, len(self.devices)))
            for device in slice_.devices:
                if counter_sets is not None and device.consumes:
                    self.counter_sets[len(self.devices)] = counter_sets
                self.devices.append(device)
                self.homes.append(slice_)

    def _where(self, test: Callable[[Device], bool]) -> int:
        bits = 0
        for rank, device in enumerate(self.devices):
            if test(device):
                bits |= 1 << rank
        return bits

    def _selected_here(self) -> int:
        """Returns the devices that are for this node, as bits."""
        away = 0
        for slice_, offset in self.slices:
            if slice_.node_name or slice_.all_nodes or slice_.node_selector is not None:
                continue
            for position, device in enumerate(slice_.devices):
                if not device_targets(device, self.node, self.labels):
                    away |= 1 << offset + position
        return self.every & ~away

    def is_of(self, node: Object) -> bool:
        """Whether the node still looks as it did when the view was made."""
        # The usual case: a tenth of the time of an attempt went into comparing labels.
        if node is self._document:
            return True
        metadata = node["metadata"]
        features = status_of(node).get("declaredFeatures") or ()
        if self.labels != mapping(metadata.get("labels")) or self.features != tuple(features):
            return False
        self._document = node
        return True

    @property
    def held(self) -> int:
        """Devices that are held exclusively, as bits."""
        return self._occupancy.current().held

    @property
    def shared(self) -> int:
        """Devices of which a share is held, as bits."""
        return self._occupancy.current().shared

    def column(self, expression: str, selectors: Selectors) -> Column:
        column = self._columns.get(expression)
        if column is None:
            selected, faults = 0, {}
            for slice_, offset in self.slices:
                own = slice_.column(expression, selectors)
                selected |= own.selected << offset
                for position, fault in own.faults.items():
                    faults[offset + position] = fault
            column = self._columns[expression] = Column(selected, faults)
        return column

    def index(self, attribute: str) -> AttributeIndex:
        index = self._indexes.get(attribute)
        if index is None:
            found = ((rank, self.values(rank, attribute)) for rank in range(len(self.devices)))
            index = AttributeIndex({rank: values for rank, values in found if values is not None})
            self._indexes[attribute] = index
        return index

    def values(self, rank: int, attribute: str) -> Values | None:
        """Returns the attribute's values as constraints see them; None if it is absent or has no known value."""
        device = self.devices[rank]
        values = device.values(attribute)
        if values is None or self.gates["DRAListTypeAttributes"]:
            return values or None
        return values if is_scalar(device.published(attribute)) else NO_VALUE

    def tolerated(self, tolerations: Sequence[Object]) -> int:
        """Returns the devices without untolerated taints, as bits."""
        bits, left = self.every, self._tainted
        while left:
            low = left & -left
            left ^= low
            if taints.untolerated(self.devices[low.bit_length() - 1].taints, tolerations) is not None:
                bits ^= low
        return bits

    @property
    def operable(self) -> int:
        """Devices whose skipped node operations the node supports, as bits."""
        if self.gates[NODE_OPERATIONS] and NODE_OPERATIONS in self.features:
            return self.every
        return self.every & ~self._skipping

    def ranks(self, bits: int) -> list[int]:
        found = []
        while bits:
            low = bits & -bits
            found.append(low.bit_length() - 1)
            bits ^= low
        return found
