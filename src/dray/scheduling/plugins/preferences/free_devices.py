"""FreeDevices: what of a node's devices is free. ClusterUsage: what pods use for the devices that they hold.

Devices are counted in thousandths. Whether cpu and memory are scarce, whether they are used up before the devices, and
how large shares of devices are, is learned from the pods that run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation import Inventory
from dray.allocation.devices import Device
from dray.allocation.views import View
from dray.api.quantity import Quantity
from dray.scheduling.cluster.gpu_watts import model_of, watts_of
from dray.scheduling.model.node import Node
from dray.scheduling.plugins.preferences.partition_packing import free_parts
from dray.scheduling.plugins.preferences.share_sizes import WHOLE, ShareSizes

RESOURCES: Final = ("cpu", "memory")
_NOTHING: Final[Mapping[str, int]] = {}
_NOTHING_SHARED: Final[Mapping[int, int]] = {}
# Pods that hold all devices of a node use at least this part of its cpu, if cpu is scarce.
_SCARCE: Final = 0.3
# If pods use cpu or memory as fast as devices (1), stranded devices do not count; if 0.1 slower, they count in full.
_STRANDED_FROM: Final = 1.0
_STRANDED_RANGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class FreeDevices:
    """The free and the used parts of a node's devices, in thousandths of a device."""

    view: View
    parts: Mapping[int, int]
    """The used part of each shared device, by rank."""
    free: int
    number: int
    """The number of physical devices: partitions of one device count as one."""
    stranded: float
    used: Mapping[str, float]
    """The parts of cpu and memory that pods request, in devices: as if each device had an equal part of them."""
    requested: Mapping[str, int]
    allocatable: Mapping[str, int]
    """The amounts of cpu and memory that pods request, and that the node has."""
    shares: Mapping[str, Mapping[int, int]]
    """The numbers of shares by driver and size."""

    @classmethod
    def of(cls, inventory: Inventory, view: View, node: Node) -> FreeDevices:
        parts = dict(used_parts(inventory, view))
        partitioned, left, held, single = 0, 0.0, view.held.bit_count(), len(view.devices)
        if view.counter_sets:
            partitioned, left = free_parts(view)
            held = sum(1 for rank in view.ranks(view.held) if rank not in view.counter_sets)
            single -= len(view.counter_sets)
        number = single + partitioned
        free = max(0, WHOLE * (single - held) - sum(parts.values())) + int(WHOLE * left)
        used = {name: number * (WHOLE - _left(node, name, 0)) for name in RESOURCES}
        return cls(
            view,
            parts,
            free,
            number,
            stranded(free, number, room(node, _NOTHING, RESOURCES)),
            used,
            {name: node.requested.get(name, 0) for name in RESOURCES},
            {name: node.allocatable.get(name, 0) for name in RESOURCES},
            share_sizes(inventory, view),
        )

    @property
    def watts(self) -> int:
        """Returns the watts that a device of the node draws in use beyond its idle power."""
        if not self.view.devices:
            return 0
        idle, used = watts_of(model_of(self.view.devices[0]))
        return used - idle

    @property
    def in_use(self) -> int:
        return WHOLE * self.number - self.free


class ClusterUsage:
    """How much cpu and memory pods use for the devices that they hold, on all nodes with devices that were scored."""

    def __init__(self) -> None:
        self._devices = 0
        self._in_use = 0
        self._used = dict.fromkeys(RESOURCES, 0.0)
        self._requested = dict.fromkeys(RESOURCES, 0)
        self._allocatable = dict.fromkeys(RESOURCES, 0)
        self.scarce: Sequence[str] = ()
        """The resources of which pods use a large part when they use devices."""
        self.stranded_weight = 1.0
        """How much stranded devices count, from 0 (cpu or memory is used up before the devices are) to 1."""
        self.shares: defaultdict[str, ShareSizes] = defaultdict(ShareSizes)
        """The sizes of shares, by driver."""

    def replace(self, before: FreeDevices | None, after: FreeDevices | None) -> None:
        """Counts a node anew."""
        for sign, free in ((-1, before), (1, after)):
            if free is not None and free.number:
                self._devices += sign * WHOLE * free.number
                self._in_use += sign * free.in_use
                for name in RESOURCES:
                    self._used[name] += sign * free.used[name]
                    self._requested[name] += sign * free.requested[name]
                    self._allocatable[name] += sign * free.allocatable[name]
        self._replace_shares(before.shares if before else {}, after.shares if after else {})
        self.scarce = [name for name, used in self._used.items() if used > _SCARCE * self._in_use > 0]
        self.stranded_weight = min(1.0, max(0.0, (_STRANDED_FROM - self._fastest()) / _STRANDED_RANGE))

    @property
    def share_revision(self) -> int:
        """The number of times that the sizes of shares were learned anew."""
        return sum(shares.revision for shares in self.shares.values())

    def _replace_shares(self, before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]) -> None:
        for driver in before.keys() | after.keys():
            self.shares[driver].replace(before.get(driver, _NOTHING_SHARED), after.get(driver, _NOTHING_SHARED))

    def _fastest(self) -> float:
        """How fast pods use up cpu or memory, whichever is faster, compared with devices: 1 if as fast."""
        if not self._in_use:
            return 0.0
        parts = [self._requested[name] / total for name, total in self._allocatable.items() if total > 0]
        return max(parts, default=0.0) * self._devices / self._in_use


def stranded(free: int, number: int, room: float) -> float:
    """The free devices beyond the part of cpu or memory that is left."""
    return max(0.0, free - room * number)


def used_parts(inventory: Inventory, view: View) -> Iterator[tuple[int, int]]:
    """The used part of each shared device, by rank."""
    devices = inventory.usage.devices
    for rank in view.ranks(view.shared & ~view.held):
        device = view.devices[rank]
        usage = devices.get(device.id)
        if usage is not None:
            yield rank, _part(device, usage.consumed)


def share_sizes(inventory: Inventory, view: View) -> Mapping[str, Mapping[int, int]]:
    """The numbers of shares by driver and size."""
    devices, found = inventory.usage.devices, defaultdict[str, Counter[int]](Counter)
    for rank in view.ranks(view.shared & ~view.held):
        device = view.devices[rank]
        usage = devices.get(device.id)
        if usage is not None:
            found[device.driver].update(_part(device, share.consumed) for share in usage.shares.values())
    return found


def _part(device: Device, consumed: Mapping[str, Quantity]) -> int:
    """The largest part of one of the device's capacities."""
    return max(
        (
            min(WHOLE, consumed[name].nanos * WHOLE // capacity.value.nanos)
            for name, capacity in device.capacity.items()
            if name in consumed and capacity.value.nanos > 0
        ),
        default=0,
    )


def room(node: Node, requests: Mapping[str, int], resources: Sequence[str]) -> float:
    """The part of the scarcest resource that is left with the pod on the node."""
    least = float(WHOLE)
    for name in resources:
        left = _left(node, name, requests.get(name, 0))
        if left < least:
            least = left
    return max(0.0, least)


def _left(node: Node, name: str, wanted: int) -> float:
    """The part of a resource that is left on the node once so much more is requested."""
    total = node.allocatable.get(name, 0)
    return (total - node.requested.get(name, 0) - wanted) * WHOLE / total if total > 0 else WHOLE
