"""How many devices can be had at once: with one claim on one node, and on all nodes together.

Asks the allocator for claims of one request, as many devices as a node may give, and commits each to the inventory,
which the caller gives away. What pods need beside devices, and quota, are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.allocation import Allocation, Inventory, Rejection, RejectionKind, Work, allocate, commit
from dray.api.objects import Object, metadata_of
from dray.api.resource_claims import MAX_DEVICES

WORK: Final = 2_000_000
ANY: Final = "any device"
"""A class without selectors, for people who have not chosen one. No DeviceClass can have such a name."""


@dataclass(slots=True)
class Room:
    total: int = 0
    most: int = 0
    """Devices that one claim can get."""
    node: str = ""
    """Where it can."""
    nodes: Counter[int] = field(default_factory=Counter)
    """How many nodes can give so many."""
    complete: bool = True
    """False if there was too much work to look at every node: then there may be more."""
    fault: str = ""
    """Why a claim with this selector fails instead of waiting."""

    def document(self) -> Object:
        return {
            "total": self.total,
            "most": self.most,
            "node": self.node,
            "nodes": {str(number): nodes for number, nodes in sorted(self.nodes.items(), reverse=True)},
            "complete": self.complete,
            "fault": self.fault,
            "limit": MAX_DEVICES,
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    class_name: str
    selector: str
    devices: frozenset[str]
    """The devices that class and selector select, as driver/pool/device."""

    def claim(self, name: str, count: int) -> Object:
        exactly: Object = {"deviceClassName": self.class_name or ANY, "allocationMode": "ExactCount", "count": count}
        if self.selector:
            exactly["selectors"] = [{"cel": {"expression": self.selector}}]
        request = {"name": "devices", "exactly": exactly}
        return {"metadata": {"name": name, "namespace": "", "uid": name}, "spec": {"devices": {"requests": [request]}}}


def find_room(inventory: Inventory, nodes: Iterable[Object], wanted: Wanted, work: Work) -> Room:
    """Changes the inventory: what is found is committed to it."""
    inventory.put_class({"metadata": {"name": ANY}, "spec": {}})
    room = Room()
    for node in nodes:
        here = _fill(inventory, node, wanted, room, work)
        if here:
            room.nodes[here] += 1
            room.total += here
        if not room.complete or room.fault:
            break
    return room


def _fill(inventory: Inventory, node: Object, wanted: Wanted, room: Room, work: Work) -> int:
    """Takes all that the node has, and returns how many devices that are."""
    name, taken = str(metadata_of(node)["name"]), 0
    # Devices that claims share can be had again and again: each counts once.
    bound = _free(inventory, node, wanted)
    while taken < bound:
        most = min(bound - taken, MAX_DEVICES)
        found = _largest(inventory, node, wanted, f"{name}-{taken}", most, room, work)
        if found is None:
            break
        count = len(found.results[0]["devices"]["results"])
        commit(inventory, found)
        taken += count
        if count > room.most:
            room.most, room.node = count, name
    return taken


def _free(inventory: Inventory, node: Object, wanted: Wanted) -> int:
    """A bound for what a claim can get there: devices that are selected and that nobody holds alone."""
    view = inventory.judged_view(node)
    if view is None:
        return 0
    selected = sum(1 << rank for rank, device in enumerate(view.devices) if "/".join(device.id) in wanted.devices)
    return (selected & ~view.held).bit_count()


def _largest(
    inventory: Inventory, node: Object, wanted: Wanted, name: str, bound: int, room: Room, work: Work
) -> Allocation | None:
    """The largest claim that the node can serve. Where a number of devices does not fit, no larger one does."""
    best: Allocation | None = None
    least, most = 1, bound
    number = most
    while least <= most:
        claim = wanted.claim(name, number)
        answer = allocate(inventory, node, [claim], work=work, explain=False, freeing=False)
        if isinstance(answer, Allocation):
            best, least = answer, number + 1
        elif _ends(answer, room):
            return best
        else:
            most = number - 1
        number = (least + most + 1) // 2
    return best


def _ends(answer: Rejection, room: Room) -> bool:
    if answer.kind is RejectionKind.UNDECIDED:
        room.complete = False
    elif answer.kind is RejectionKind.FAULT:
        room.fault = answer.message
    return answer.kind in (RejectionKind.UNDECIDED, RejectionKind.FAULT)


def nodes_with_devices(nodes: Sequence[Object], slices: Iterable[Object]) -> list[Object]:
    """The nodes; those of slices by name alone, where the viewer may not list nodes."""
    if nodes:
        return list(nodes)
    names = sorted({str(each["spec"]["nodeName"]) for each in slices if each["spec"].get("nodeName")})
    return [{"metadata": {"name": name, "labels": {}}} for name in names]
