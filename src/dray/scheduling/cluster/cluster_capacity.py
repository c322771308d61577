"""ClusterCapacity: the cpu, memory and GPUs of the whole cluster, which queues share.

GPUs are the devices that a GPU class selects. Devices that consume the same counters are partitions of one GPU, and
count as one. A device class or extended resource is one of GPUs if its name, or the name of the extended resource of
the class, contains "gpu". An extended resource of a MIG profile counts as its number of GPU slices. `ShareSizes` has
the capacity that a request takes of a device at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from dray.allocation import Inventory, Work
from dray.allocation.capacity import CapacityError, consumption
from dray.allocation.devices import Device
from dray.allocation.selectors import Selectors
from dray.allocation.slices import Slice
from dray.api.objects import Object, condition_of, mapping, mappings
from dray.api.quantity import Quantity, QuantityError
from dray.scheduling.cluster.extended import ResourceMap, is_extended
from dray.scheduling.model.node import Node

GPU: Final = "gpu"
_MOST_KINDS: Final = 1024
_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9])g\.[0-9]+gb")


def says_gpu(name: str) -> bool:
    return GPU in name.lower()


def is_gpu_class(name: str, resources: ResourceMap) -> bool:
    return any(map(says_gpu, resources.names(name)))


def gpu_requests(requests: Mapping[str, int]) -> int:
    """The number of GPUs among requested or allocatable extended resources."""
    return sum(amount * _gpus_of(name) for name, amount in requests.items() if is_extended(name))


def _gpus_of(resource: str) -> int:
    """How many GPUs one of an extended resource counts as; nvidia.com/mig-3g.20gb counts as 3."""
    profile = _MIG.fullmatch(resource)
    return int(profile[1]) if profile is not None else int(says_gpu(resource))


class _Units(NamedTuple):
    """The units of a slice that count as one GPU each."""

    slice: Slice
    selectors: tuple[str, ...]
    units: frozenset[Hashable]


class ClusterCapacity:
    def __init__(self, nodes: Mapping[str, Node], inventory: Inventory, resources: ResourceMap) -> None:
        self._nodes = nodes
        self._inventory = inventory
        self._resources = resources
        self._known: Mapping[str, float] | None = None
        self._units: dict[str, _Units] = {}
        """GPUs by slice name; valid while the slice and the selectors are the same."""
        self.share_sizes = ShareSizes(inventory)

    def outdate(self) -> None:
        """Drops the amounts, after nodes, slices or classes changed."""
        self._known = None

    def outdate_devices(self) -> None:
        """Drops the amounts and share sizes, after slices or classes changed."""
        self.outdate()
        self.share_sizes.outdate()

    def amounts(self) -> Mapping[str, float]:
        """The total amounts by resource; the same object until they change."""
        if self._known is None:
            ready = [node for node in self._nodes.values() if node.document is not None and is_ready(node.document)]
            totals = {name: float(sum(node.allocatable.get(name, 0) for node in ready)) for name in ("cpu", "memory")}
            gpus = sum(gpu_requests(node.allocatable) for node in ready) + self._devices()
            self._known = {**totals, GPU: float(gpus)}
        return self._known

    def _devices(self) -> int:
        """The number of GPUs that are published as devices."""
        classes = [
            selectors_of(mapping(device_class.get("spec")))
            for name, device_class in self._inventory.classes.items()
            if is_gpu_class(name, self._resources)
        ]
        selectors = tuple(sorted({expression for expressions in classes for expression in expressions}))
        with self._inventory.selectors.charging(Work()):
            slices = self._inventory.newest_slices()
            self._units = {slice_.name: self._units_of(slice_, classes, selectors) for slice_ in slices}
        return len({unit for of_slice in self._units.values() for unit in of_slice.units})

    def _units_of(self, slice_: Slice, classes: Iterable[tuple[str, ...]], selectors: tuple[str, ...]) -> _Units:
        known = self._units.get(slice_.name)
        if known is not None and known.slice is slice_ and known.selectors == selectors:
            return known
        selected = 0
        for expressions in classes:
            selected |= _selected(slice_, expressions, self._inventory.selectors)
        units: set[Hashable] = set()
        for position, device in enumerate(slice_.devices):
            if selected >> position & 1:
                sets = [mapping(use).get("counterSet") for use in device.spec.get("consumesCounters") or ()]
                units.add((slice_.key, *sets) if sets else device.id)
        return _Units(slice_, selectors, frozenset(units))


def is_ready(node: Object) -> bool:
    ready = condition_of(node, "Ready")
    return ready is None or ready.get("status") == "True"


class ShareSizes:
    """The capacity that a request for a share of a device takes at most, before a device is chosen.

    A request without an amount takes the default of the device's request policy, or the whole capacity. An amount is
    rounded up by the policy. The largest result over all devices that class and request select counts, so that quota is
    not exceeded whichever device is chosen.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._known: dict[object, dict[str, int]] = {}
        """Sizes by the selectors and the requested capacity."""
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, changed: Callable[[], None]) -> None:
        """Calls a function when sizes that were returned may have changed."""
        self._changed = changed

    def outdate(self) -> None:
        """Drops all sizes, after slices or classes changed."""
        if self._known:
            self._known.clear()
            self._changed()

    def of(self, request: Object) -> dict[str, int]:
        """The size of a request by name of the capacity; empty if it selects no device that can be shared."""
        device_class = self._inventory.classes.get(str(request.get("deviceClassName")))
        if device_class is None:
            return {}
        asked = mapping(mapping(request.get("capacity")).get("requests"))
        expressions = (*selectors_of(mapping(device_class.get("spec"))), *selectors_of(request))
        key = expressions, tuple(sorted((name, str(amount)) for name, amount in asked.items()))
        if key not in self._known:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            self._known[key] = self._largest(expressions, asked)
        return self._known[key]

    def _largest(self, expressions: tuple[str, ...], asked: Object) -> dict[str, int]:
        try:
            wanted = {name: Quantity.parse(str(amount)) for name, amount in asked.items()}
        except QuantityError:
            return {}
        fractional, largest = self._inventory.gates["DRAFractionalCapacityRange"], dict[str, int]()
        for device in self._selected(expressions):
            try:
                amounts = consumption(device, wanted, fractional=fractional) or {}
            except (CapacityError, QuantityError):
                continue
            for name, amount in amounts.items():
                largest[name] = max(largest.get(name, 0), amount.value())
        return largest

    def _selected(self, expressions: tuple[str, ...]) -> list[Device]:
        """The devices that all expressions select and that can be shared."""
        selectors = self._inventory.selectors
        with selectors.charging(Work()):
            return [
                device
                for slice_ in self._inventory.newest_slices()
                if (selected := _selected(slice_, expressions, selectors))
                for position, device in enumerate(slice_.devices)
                if selected >> position & 1 and device.shareable
            ]


def _selected(slice_: Slice, expressions: Iterable[str], selectors: Selectors) -> int:
    """Returns the devices of a slice that all expressions select, as bits."""
    selected = (1 << len(slice_.devices)) - 1
    for expression in expressions:
        selected &= slice_.column(expression, selectors).selected
    return selected


def selectors_of(spec: Object) -> tuple[str, ...]:
    """The CEL expressions of a class or request; a selector of another type counts as `false`."""
    listed = mappings(spec.get("selectors"))
    return tuple(str(mapping(selector.get("cel")).get("expression") or "false") for selector in listed)
