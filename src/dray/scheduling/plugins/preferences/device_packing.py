"""DevicePacking: prefers nodes where a pod wastes few devices (`pack`). DeviceSpreading: nodes whose devices are free.

Devices are counted in thousandths, and five kinds of waste are added up, each with a weight:
- `unused`: the part of a shared device that no further share will take, as shares of the sizes in use come
  (`share_sizes`). Beside it `rest` counts a little, the part that the share leaves over, and decides while no shares
  are in use: the fullest device with room for the share is the best;
- `stranded`: free devices that lose the cpu or memory that their users would need, also to pods that claim no device.
  It counts less, and in the end not at all, if pods use up cpu or memory before the devices: then some devices must
  stay free, and it is better that few nodes have them all;
- `imbalance`: the difference between the free part of the devices and of cpu or memory, whichever is scarcer. A node
  with more cpu than its free devices need is as bad as one with less: other nodes lack that cpu. Whether cpu and
  memory are scarce is learned from the pods that run: if they use little of them for their devices, they do not count;
- `left`: free devices that remain on the node. The node with the fewest is taken, and whole nodes are kept;
- the memory of the devices: a pod that can use several models gets the smallest (`device_values`).
The weights were found by playing 1,213 nodes of a production cluster with seven mixes of tasks. They allocate more than
a rule that knows the frequencies of tasks (FGD). Under `pack` the scores of cpu and memory, which prefer empty nodes,
do not count, and preferences such as affinity weigh as much as some tenths of a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from dray.allocation.views import View
from dray.api.objects import Object
from dray.api.quantity import Quantity, QuantityError
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.plugin import Depends, Plugin
from dray.scheduling.plugins.preferences.device_values import has_memories, memory_taken
from dray.scheduling.plugins.preferences.free_devices import RESOURCES, ClusterUsage, FreeDevices, room, stranded
from dray.scheduling.plugins.preferences.partition_packing import partition_waste
from dray.scheduling.plugins.preferences.share_sizes import WHOLE

OTHER_SCORES: Final = 1000
"""The factor of all other scores under `pack`: a preference of 100 points weighs as much as 200 wasted thousandths."""
_REST: Final = 100
_UNUSED: Final = 1000
_STRANDED: Final = 500
_IMBALANCE: Final = 18
# For each GiB of memory of a device: 16 GiB weigh more than to keep a node whole, and any difference less than a
# preferred affinity.
_VALUE: Final = 1000
# For each watt, with `pack,power`: 60 watts weigh as much as 600 wasted thousandths. The watts of processors do not
# count: a processor is idle or not, and pods that avoid waking one up go to GPUs that draw more.
_WATT: Final = 5000
# Enough to outweigh an emptier node by cpu and memory.
_SPREAD: Final = 3


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
        self._usage = ClusterUsage()

    def score(self, cycle: Cycle, node: Node) -> int:
        """Returns a higher score for nodes that waste less."""
        wanted = self._wanted(cycle)
        free = self._free(node)
        if free is None:
            return 0
        points = 0
        if free.view.counter_sets:
            points, wanted = self._partitions(free.view, wanted)
        placed = [_placed(free.view, free.parts, take) for take in wanted]
        points += waste(free, node, cycle.pod.requirements, placed, self._usage)
        if has_memories(free.view):
            points += sum(int(_VALUE * self._memory(free.view, *each)) for each in zip(wanted, placed, strict=True))
        if self._watt:
            points += self._watt * free.watts * sum(each.opened for each in placed)
        return -points

    def score_revision(self, cycle: Cycle) -> int:
        """Scores for shares depend on the sizes of shares that are in use."""
        if not any(take.amounts for take in self._wanted(cycle)):
            return 0
        self._follow()
        return self._usage.share_revision

    def _wanted(self, cycle: Cycle) -> Sequence[Take]:
        demand = cycle.claims.demand
        wanted = self._takes.get(demand)
        if wanted is None:
            wanted = self._takes[demand] = takes(demand.requests)
        return wanted

    def _memory(self, view: View, take: Take, placed: Placed) -> float:
        """The memory in GiB of a device that a request takes, or of its part of the device."""
        if not take.sole:
            # The request has alternatives, in the order in which they are preferred.
            return 0.0
        part = placed.taken / (take.count * WHOLE) if take.amounts else 1.0
        return memory_taken(self._state.inventory, view, take.request, part)

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
        self._follow()
        known = self._known.get(node.number)
        return known if known is not None else self._count(node.number)

    def _follow(self) -> None:
        """Counts the free devices of nodes that have changed anew."""
        log = self._state.touched
        if log.end != self._position:
            changed = log.since(self._position)
            self._position = log.end
            for number in list(self._known) if changed is None else changed & self._known.keys():
                self._count(number)

    def _count(self, number: int) -> FreeDevices | None:
        """Counts the free devices of a node anew. Nodes that are full count too: what pods use is learned from them."""
        node, inventory = self._state.numbered[number], self._state.inventory
        view = inventory.judged_view(node.document) if node is not None and node.document is not None else None
        known = self._known.pop(number, None)
        if node is None or view is None:
            self._usage.replace(known, None)
            return None
        found = self._known[number] = FreeDevices.of(inventory, view, node)
        self._usage.replace(known, found)
        return found


@dataclass(frozen=True, slots=True)
class Take:
    """The devices that a request takes: their number, and amounts of their capacities (none: whole devices)."""

    count: int
    amounts: Mapping[str, int]
    """Amounts in billionths, by name of the capacity."""
    request: Object = field(default_factory=dict, compare=False)
    sole: bool = True
    """Whether the request has no alternatives."""


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
        found.append(Take(subrequest.get("count") or 1, amounts, subrequest, "exactly" in request))
    return found


def waste(
    free: FreeDevices, node: Node, requirements: Requirements, placed: Sequence[Placed], usage: ClusterUsage
) -> int:
    """Points to subtract from the node's score."""
    number, left, rest, unused = free.number, free.free, 0, 0.0
    for each in placed:
        left -= each.taken
        if each.driver:
            shares = usage.shares[each.driver]
            for before, after in each.parts:
                rest += after
                unused += shares.unused(after) - (shares.unused(before) if before < WHOLE else 0.0)
    left = max(0, left)
    part = left / number if number else 0
    lost = stranded(left, number, room(node, requirements.requests, RESOURCES)) - free.stranded
    imbalance = 0.0
    if usage.scarce and any(name in requirements.requests for name in usage.scarce):
        imbalance = abs(part - room(node, requirements.requests, usage.scarce))
    points = _REST * rest + _UNUSED * unused + _STRANDED * usage.stranded_weight * lost + _IMBALANCE * imbalance
    return int(points + left + part)


class Placed(NamedTuple):
    """The devices of a node that a request takes."""

    taken: int
    opened: int
    """The number of devices that were not in use before."""
    driver: str = ""
    """The driver of the devices that are shared."""
    parts: Sequence[tuple[int, int]] = ()
    """The free part of each device that is shared, before and after."""


def _placed(view: View, parts: Mapping[int, int], take: Take) -> Placed:
    if not take.amounts:
        return Placed(take.count * WHOLE, take.count)
    fits, driver = [], ""
    for rank, used in parts.items():
        size = _size(view, rank, take)
        if size is not None and used + size <= WHOLE:
            fits.append((WHOLE - used - size, size))
            driver = view.devices[rank].driver
    fits.sort()
    del fits[take.count :]
    taken, found = sum(size for _, size in fits), [(after + size, after) for after, size in fits]
    if missing := take.count - len(fits):
        size = WHOLE
        for rank, device in enumerate(view.devices):
            known = _size(view, rank, take)
            if known is not None:
                size, driver = known, device.driver
                break
        taken += missing * size
        found += [(WHOLE, WHOLE - size)] * missing
    return Placed(taken, missing, driver, found)


def _size(view: View, rank: int, take: Take) -> int | None:
    """The part of a device that a request takes; None if the device has too little capacity."""
    device = view.devices[rank]
    largest = 0
    for name, amount in take.amounts.items():
        capacity = device.capacity.get(name)
        if capacity is None or capacity.value.nanos < max(1, amount):
            return None
        largest = max(largest, amount * WHOLE // capacity.value.nanos)
    return largest
