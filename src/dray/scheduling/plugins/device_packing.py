"""DevicePacking: nodes where a pod wastes few devices are better; with a negative weight, those whose devices are free.

Devices are wasted in three ways, each counted in thousandths of a device or of a node's devices:
- the rest of a shared device that a share leaves over: the fullest device with room for it is the best;
- devices that stay free on a node whose cpu or memory is taken, be it by pods that claim no device: `stranded`;
- nodes that are begun while others still have room: `free`.
Counting devices in use alone packs badly: it fills nodes up to the last cpu and leaves devices there that nobody can
use, and opens a device for a share where another node has one that is open already.
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
        """The better a node is to pack devices the higher, for all pods; to spread them, only those with claims matter,
        and what counts is how many devices are in use."""
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
    """What a request takes: so many devices, of each so much of its capacities; nothing named is the whole device."""

    count: int
    amounts: Mapping[str, int]
    """Nanos."""


def takes(requests: Sequence[Object]) -> list[Take]:
    """Of the first choice of each request."""
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
    """Points to take off the node's score, for a weight of one."""
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
    """Of devices that are shared, and of those whose counters others have used up."""
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
    """How much it takes of the node's devices, and how much it leaves on those it shares."""
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
    """The part of a device that it takes; None where the device cannot give it."""
    device = view.devices[rank]
    largest = 0
    for name, amount in take.amounts.items():
        capacity = device.capacity.get(name)
        if capacity is None or capacity.value.nanos < max(1, amount):
            return None
        largest = max(largest, amount * _WHOLE // capacity.value.nanos)
    return largest


def _room(node: Node, requirements: Requirements) -> int:
    """The part of cpu or memory, whichever is scarcer, that is left with the pod there."""
    least = _WHOLE
    for name in ("cpu", "memory"):
        total = node.allocatable.get(name, 0)
        if total > 0:
            left = total - node.requested.get(name, 0) - requirements.requests.get(name, 0)
            least = min(least, max(0, left) * _WHOLE // total)
    return least
