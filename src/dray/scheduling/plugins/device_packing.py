"""DevicePacking: prefers nodes where a pod wastes few devices; with a negative weight, nodes whose devices are free.

Devices are wasted in three ways, each counted in thousandths of a device or of a node's devices:
- `rest`: the part of a shared device that a share leaves over; the fullest device with room for it is the best;
- `stranded`: free devices on a node whose cpu or memory is used up, also by pods that claim no device;
- `free`: free devices of a node that is taken into use while other nodes still have room.
Counting devices in use is not enough: it fills nodes up to the last cpu and strands devices there, and takes a share
from an unused device while another node has a device that is shared already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from dray.allocation import Inventory
from dray.allocation.views import View
from dray.api.objects import Object
from dray.api.quantity import Quantity, QuantityError
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.plugin import Depends, Plugin

_WHOLE: Final = 1000
# Points for a device or for all of a node's devices, times the weight of packing.
_REST: Final = 100
_STRANDED: Final = 100
_FREE: Final = 10


class DevicePacking(Plugin):
    depends_on = Depends.DEVICES | Depends.PODS

    def __init__(self, state: State, weight: int) -> None:
        self._state = state
        self._weight = weight
        self._takes: WeakKeyDictionary[DeviceDemand, list[Take]] = WeakKeyDictionary()

    def score(self, cycle: Cycle, node: Node) -> int:
        """Returns a higher score for nodes that waste less. With a negative weight, nodes with fewer devices in use get
        a higher score, and only for pods that claim devices."""
        inventory, demand = self._state.inventory, cycle.claims.demand
        view = inventory.judged_view(node.document)
        if view is None:
            return 0
        if self._weight > 0:
            wanted = self._takes.get(demand)
            if wanted is None:
                wanted = self._takes[demand] = takes(demand.requests)
            return -self._weight * waste(inventory, view, node, cycle.pod.requirements, wanted)
        used = (view.held | view.shared).bit_count()
        return self._weight * (used * 100 // max(1, len(view.devices))) if demand else 0


@dataclass(frozen=True, slots=True)
class Take:
    """The devices that a request takes: their number, and amounts of their capacities (none: whole devices)."""

    count: int
    amounts: Mapping[str, int]
    """Amounts in billionths, by name of the capacity."""


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
        found.append(Take(subrequest.get("count") or 1, amounts))
    return found


def waste(inventory: Inventory, view: View, node: Node, requirements: Requirements, wanted: Sequence[Take]) -> int:
    """Points to subtract from the node's score, for a weight of one."""
    number = len(view.devices)
    if not number:
        return 0
    parts = dict(_used_parts(inventory, view))
    free = _WHOLE * (number - view.held.bit_count()) - sum(parts.values())
    rest = 0
    for take in wanted:
        taken, left = _placed(view, parts, take)
        free -= taken
        rest += left
    free = max(0, free) // number
    stranded = max(0, free - _room(node, requirements))
    return (_REST * rest + _STRANDED * stranded + _FREE * free) // _WHOLE


def _used_parts(inventory: Inventory, view: View) -> Iterator[tuple[int, int]]:
    """The used part of each shared device, by rank; devices whose counters are used up count as fully used."""
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
    for rank, counter_sets in view.counter_sets.items():
        if not (view.held | view.shared) >> rank & 1:
            cost = counter_sets.cost(view.devices[rank])
            if any(counter_sets.left[position] < amount for position, amount in cost):
                yield rank, _WHOLE


def _placed(view: View, parts: Mapping[int, int], take: Take) -> tuple[int, int]:
    """Returns how much of the node's devices a request takes, and how much is left on the devices that it shares."""
    if not take.amounts:
        return take.count * _WHOLE, 0
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
    return taken, rest


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


def _room(node: Node, requirements: Requirements) -> int:
    """The part of cpu or memory, whichever is scarcer, that is left once the pod is on the node."""
    least = _WHOLE
    for name in ("cpu", "memory"):
        total = node.allocatable.get(name, 0)
        if total > 0:
            left = total - node.requested.get(name, 0) - requirements.requests.get(name, 0)
            least = min(least, max(0, left) * _WHOLE // total)
    return least
