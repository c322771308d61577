"""DevicePacking: prefers nodes where a pod wastes few devices (`pack`). DeviceSpreading: nodes whose devices are free.

Devices are counted in thousandths, and four kinds of waste are added up, each with a weight:
- `rest`: the part of a shared device that a share leaves over; the fullest device with room for it is the best;
- `stranded`: free devices that lose the cpu or memory that their users would need, also to pods that claim no device;
- `imbalance`: the difference between the free part of the devices and of cpu or memory, whichever is scarcer. A node
  with more cpu than its free devices need is as bad as one with less: other nodes lack that cpu. Whether cpu and
  memory are scarce is learned from the pods that run: if they use little of them for their devices, they do not count;
- `left`: free devices that remain on the node. The node with the fewest is taken, and whole nodes are kept.
The weights were found by playing 1,213 nodes of a production cluster with seven mixes of tasks. They allocate more than
a rule that knows the frequencies of tasks (FGD). Under `pack` the scores of cpu and memory, which prefer empty nodes,
do not count, and preferences such as affinity weigh as much as some tenths of a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from dray.allocation import Inventory
from dray.allocation.views import View
from dray.api.objects import Object
from dray.api.quantity import Quantity, QuantityError
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.cluster.gpu_watts import model_of, watts_of
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.plugin import Depends, Plugin
from dray.scheduling.plugins.preferences.partition_packing import free_parts, partition_waste

OTHER_SCORES: Final = 1000
"""The factor of all other scores under `pack`: a preference of 100 points weighs as much as 200 wasted thousandths."""
_WHOLE: Final = 1000
_REST: Final = 500
_STRANDED: Final = 500
_IMBALANCE: Final = 18
# For each watt, with `pack,power`: 60 watts weigh as much as 600 wasted thousandths. The watts of processors do not
# count: a processor is idle or not, and pods that avoid waking one up go to GPUs that draw more.
_WATT: Final = 5000
# Enough to outweigh an emptier node by cpu and memory.
_SPREAD: Final = 3
_NOTHING: Final[Mapping[str, int]] = {}
_RESOURCES: Final = ("cpu", "memory")
# Pods that hold all devices of a node use at least this part of its cpu, if cpu is scarce.
_SCARCE: Final = 0.3


class DeviceSpreading(Plugin):
    depends_on = Depends.DEVICES | Depends.PODS

    def __init__(self, state: State) -> None:
        self._state = state

    def score(self, cycle: Cycle, node: Node) -> int:
        """A higher score for nodes with fewer devices in use, for pods that claim devices."""
        view = self._state.inventory.judged_view(node.document)
        if view is None or not cycle.claims.demand:
            return 0
        used = (view.held | view.shared).bit_count()
        return -_SPREAD * (used * 100 // max(1, len(view.devices)))


class DevicePacking(Plugin):
    depends_on = Depends.DEVICES | Depends.PODS

    def __init__(self, state: State, *, power: bool = False) -> None:
        """With `power`, watts of devices that were idle before count as waste too."""
        self._state = state
        self._watt = _WATT if power else 0
        self._takes: WeakKeyDictionary[DeviceDemand, list[Take]] = WeakKeyDictionary()
        self._position = -1
        self._known: dict[int, FreeDevices] = {}
        """The free devices by node number. A node is scored for many signatures between two changes."""
        self._changed: set[int] = set()
        self._usage = ClusterUsage()

    def score(self, cycle: Cycle, node: Node) -> int:
        """Returns a higher score for nodes that waste less."""
        demand = cycle.claims.demand
        wanted = self._takes.get(demand)
        if wanted is None:
            wanted = self._takes[demand] = takes(demand.requests)
        free = self._free(node)
        if free is None:
            return 0
        points = 0
        if free.view.counter_sets:
            points, wanted = self._partitions(free.view, wanted)
        points += waste(free, node, cycle.pod.requirements, wanted, self._usage)
        if self._watt:
            opened = sum(_placed(free.view, free.parts, take).opened for take in wanted)
            points += self._watt * free.watts * opened
        return -points

    def _partitions(self, view: View, wanted: Sequence[Take]) -> tuple[int, list[Take]]:
        """The points of requests that take partitions of devices, and the other requests."""
        points, others = 0, []
        for take in wanted:
            found = partition_waste(self._state.inventory, view, take.request)
            if found is None:
                others.append(take)
            else:
                points += found
        return points, others

    def _free(self, node: Node) -> FreeDevices | None:
        log = self._state.touched
        if log.end != self._position:
            changed = log.since(self._position)
            self._position = log.end
            self._changed |= self._known.keys() if changed is None else changed
        known = self._known.get(node.number)
        if known is not None and node.number not in self._changed:
            return known
        inventory = self._state.inventory
        view = inventory.judged_view(node.document)
        if view is None:
            return None
        found = self._known[node.number] = FreeDevices.of(inventory, view, node)
        self._changed.discard(node.number)
        self._usage.replace(known, found)
        return found


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

    @classmethod
    def of(cls, inventory: Inventory, view: View, node: Node) -> FreeDevices:
        parts = dict(_used_parts(inventory, view))
        partitioned, left, held, single = 0, 0.0, view.held.bit_count(), len(view.devices)
        if view.counter_sets:
            partitioned, left = free_parts(view)
            held = sum(1 for rank in view.ranks(view.held) if rank not in view.counter_sets)
            single -= len(view.counter_sets)
        number = single + partitioned
        free = max(0, _WHOLE * (single - held) - sum(parts.values())) + int(_WHOLE * left)
        used = {name: number * (_WHOLE - _left(node, name, 0)) for name in _RESOURCES}
        return cls(view, parts, free, number, _stranded(free, number, _room(node, _NOTHING, _RESOURCES)), used)

    @property
    def watts(self) -> int:
        """What a device of the node draws in use beyond what it draws idle."""
        if not self.view.devices:
            return 0
        idle, used = watts_of(model_of(self.view.devices[0]))
        return used - idle

    @property
    def in_use(self) -> int:
        return _WHOLE * self.number - self.free


class ClusterUsage:
    """How much cpu and memory pods use for the devices that they hold, on all nodes that were scored."""

    def __init__(self) -> None:
        self._devices = 0
        self._used = dict.fromkeys(_RESOURCES, 0.0)
        self.scarce: Sequence[str] = ()
        """The resources of which pods use a large part when they use devices."""

    def replace(self, before: FreeDevices | None, after: FreeDevices) -> None:
        """Counts a node anew."""
        for sign, free in ((-1, before), (1, after)):
            if free is not None:
                self._devices += sign * free.in_use
                for name, amount in free.used.items():
                    self._used[name] += sign * amount
        self.scarce = [name for name, used in self._used.items() if used > _SCARCE * self._devices > 0]


@dataclass(frozen=True, slots=True)
class Take:
    """The devices that a request takes: their number, and amounts of their capacities (none: whole devices)."""

    count: int
    amounts: Mapping[str, int]
    """Amounts in billionths, by name of the capacity."""
    request: Object = field(default_factory=dict, compare=False)


def takes(requests: Sequence[Object]) -> list[Take]:
    """Returns the devices that the first alternative of each request takes."""
    found = []
    for request in requests:
        subrequest = request.get("exactly") or next(iter(request.get("firstAvailable") or ()), None)
        if subrequest is None or subrequest.get("adminAccess") or subrequest.get("allocationMode") == "All":
            continue
        amounts = {}
        for name, amount in ((subrequest.get("capacity") or {}).get("requests") or {}).items():
            try:
                amounts[name] = Quantity.parse(str(amount)).nanos
            except QuantityError:
                continue
        found.append(Take(subrequest.get("count") or 1, amounts, subrequest))
    return found


def waste(
    free: FreeDevices, node: Node, requirements: Requirements, wanted: Sequence[Take], usage: ClusterUsage
) -> int:
    """Points to subtract from the node's score."""
    number, left, rest = free.number, free.free, 0
    for take in wanted:
        placed = _placed(free.view, free.parts, take)
        left -= placed.taken
        rest += placed.rest
    left = max(0, left)
    part = left / number if number else 0
    stranded = _stranded(left, number, _room(node, requirements.requests, _RESOURCES)) - free.stranded
    imbalance = 0.0
    if usage.scarce and any(name in requirements.requests for name in usage.scarce):
        imbalance = abs(part - _room(node, requirements.requests, usage.scarce))
    return int(_REST * rest + _STRANDED * stranded + _IMBALANCE * imbalance + left + part)


def _stranded(free: int, number: int, room: float) -> float:
    """The free devices beyond the part of cpu or memory that is left."""
    return max(0.0, free - room * number)


def _used_parts(inventory: Inventory, view: View) -> Iterator[tuple[int, int]]:
    """The used part of each shared device, by rank."""
    devices = inventory.usage.devices
    for rank in view.ranks(view.shared & ~view.held):
        device = view.devices[rank]
        usage = devices.get(device.id)
        if usage is not None:
            yield (
                rank,
                max(
                    (
                        min(_WHOLE, usage.consumed[name].nanos * _WHOLE // capacity.value.nanos)
                        for name, capacity in device.capacity.items()
                        if name in usage.consumed and capacity.value.nanos > 0
                    ),
                    default=0,
                ),
            )


class Placed(NamedTuple):
    """What a request takes of a node's devices."""

    taken: int
    rest: int
    """What is left on the devices that it shares."""
    opened: int
    """The number of devices that were not in use before."""


def _placed(view: View, parts: Mapping[int, int], take: Take) -> Placed:
    if not take.amounts:
        return Placed(take.count * _WHOLE, 0, take.count)
    fits = []
    for rank, used in parts.items():
        size = _size(view, rank, take)
        if size is not None and used + size <= _WHOLE:
            fits.append((_WHOLE - used - size, size))
    fits.sort()
    del fits[take.count :]
    taken, rest = sum(size for _, size in fits), sum(left for left, _ in fits)
    if missing := take.count - len(fits):
        size = next(
            (size for rank in range(len(view.devices)) if (size := _size(view, rank, take)) is not None), _WHOLE
        )
        taken, rest = taken + missing * size, rest + missing * (_WHOLE - size)
    return Placed(taken, rest, missing)


def _size(view: View, rank: int, take: Take) -> int | None:
    """The part of a device that a request takes; None if the device has too little capacity."""
    device = view.devices[rank]
    largest = 0
    for name, amount in take.amounts.items():
        capacity = device.capacity.get(name)
        if capacity is None or capacity.value.nanos < max(1, amount):
            return None
        largest = max(largest, amount * _WHOLE // capacity.value.nanos)
    return largest


def _room(node: Node, requests: Mapping[str, int], resources: Sequence[str]) -> float:
    """The part of the scarcest resource that is left with the pod on the node."""
    return max(0.0, min(_left(node, name, requests.get(name, 0)) for name in resources))


def _left(node: Node, name: str, wanted: int) -> float:
    """The part of a resource that is left on the node once so much more is requested."""
    total = node.allocatable.get(name, 0)
    return (total - node.requested.get(name, 0) - wanted) * _WHOLE / total if total > 0 else _WHOLE
