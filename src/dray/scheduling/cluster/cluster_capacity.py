"""ClusterCapacity: how much there is in the whole cluster of what queues share: cpu, memory and GPUs.

GPUs are the devices that a class of GPUs selects. Devices that draw on the same counters are parts of one, and count as
one. A class, or an extended resource, is one of GPUs if it says so: in its name, or in the name of its extended
resource.
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
    """GPUs that are requested, or that a node has, as extended resources."""
    return sum(amount for name, amount in requests.items() if is_extended(name) and says_gpu(name))


class _Units(NamedTuple):
    """What of a slice counts as one GPU each."""

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
        """GPUs by slice, for as long as it and the selectors are what they were."""
        self.share_sizes = ShareSizes(inventory)

    def outdate(self) -> None:
        """Nodes, slices or classes are other than before."""
        self._known = None

    def outdate_devices(self) -> None:
        """Slices or classes are."""
        self.outdate()
        self.share_sizes.outdate()

    def amounts(self) -> Mapping[str, float]:
        """The same object for as long as it is the same."""
        if self._known is None:
            ready = [each for each in self._nodes.values() if each.document is not None and is_ready(each.document)]
            found = {name: float(sum(each.allocatable.get(name, 0) for each in ready)) for name in ("cpu", "memory")}
            self._known = {**found, GPU: float(sum(gpu_requests(each.allocatable) for each in ready) + self._devices())}
        return self._known

    def _devices(self) -> int:
        classes = [
            selectors_of(mapping(each.get("spec")))
            for name, each in self._inventory.classes.items()
            if is_gpu_class(name, self._resources)
        ]
        selectors = tuple(sorted({expression for each in classes for expression in each}))
        was, self._inventory.selectors.work = self._inventory.selectors.work, Work()
        try:
            slices = self._inventory.newest_slices()
            self._units = {each.name: self._units_of(each, classes, selectors) for each in slices}
        finally:
            self._inventory.selectors.work = was
        return len({unit for each in self._units.values() for unit in each.units})

    def _units_of(self, slice_: Slice, classes: Iterable[tuple[str, ...]], selectors: tuple[str, ...]) -> _Units:
        known = self._units.get(slice_.name)
        if known is not None and known.slice is slice_ and known.selectors == selectors:
            return known
        selected = 0
        for expressions in classes:
            bits = (1 << len(slice_.devices)) - 1
            for each in expressions:
                bits &= slice_.column(each, self._inventory.selectors).selected
            selected |= bits
        units: set[Hashable] = set()
        for position, device in enumerate(slice_.devices):
            if selected >> position & 1:
                sets = [mapping(each).get("counterSet") for each in device.spec.get("consumesCounters") or ()]
                units.add((slice_.key, *sets) if sets else device.id)
        return _Units(slice_, selectors, frozenset(units))


def is_ready(node: Object) -> bool:
    ready = condition_of(node, "Ready")
    return ready is None or ready.get("status") == "True"
