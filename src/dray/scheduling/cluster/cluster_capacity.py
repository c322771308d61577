"""ClusterCapacity: the cpu, memory and GPUs of the whole cluster, which queues share.

GPUs are the devices that a GPU class selects. Devices that consume the same counters are partitions of one GPU, and
count as one. A device class or extended resource is one of GPUs if its name, or the name of the extended resource of
the class, contains "gpu".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from dray.allocation import Inventory, Work
from dray.allocation.slices import Slice
from dray.api.objects import Object, condition_of, mapping
from dray.scheduling.cluster.extended import ResourceMap, is_extended
from dray.scheduling.cluster.share_sizes import ShareSizes, selectors_of
from dray.scheduling.model.node import Node

GPU: Final = "gpu"


def says_gpu(name: str) -> bool:
    return GPU in name.lower()


def is_gpu_class(name: str, resources: ResourceMap) -> bool:
    return any(map(says_gpu, resources.names(name)))


def gpu_requests(requests: Mapping[str, int]) -> int:
    """The number of GPUs among requested or allocatable extended resources."""
    return sum(amount for name, amount in requests.items() if is_extended(name) and says_gpu(name))


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
        was, self._inventory.selectors.work = self._inventory.selectors.work, Work()
        try:
            slices = self._inventory.newest_slices()
            self._units = {slice_.name: self._units_of(slice_, classes, selectors) for slice_ in slices}
        finally:
            self._inventory.selectors.work = was
        return len({unit for of_slice in self._units.values() for unit in of_slice.units})

    def _units_of(self, slice_: Slice, classes: Iterable[tuple[str, ...]], selectors: tuple[str, ...]) -> _Units:
        known = self._units.get(slice_.name)
        if known is not None and known.slice is slice_ and known.selectors == selectors:
            return known
        selected = 0
        for expressions in classes:
            bits = (1 << len(slice_.devices)) - 1
            for expression in expressions:
                bits &= slice_.column(expression, self._inventory.selectors).selected
            selected |= bits
        units: set[Hashable] = set()
        for position, device in enumerate(slice_.devices):
            if selected >> position & 1:
                sets = [mapping(use).get("counterSet") for use in device.spec.get("consumesCounters") or ()]
                units.add((slice_.key, *sets) if sets else device.id)
        return _Units(slice_, selectors, frozenset(units))


def is_ready(node: Object) -> bool:
    ready = condition_of(node, "Ready")
    return ready is None or ready.get("status") == "True"
