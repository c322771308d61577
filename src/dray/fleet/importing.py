"""Describes a live cluster as a fleet: machine types from its nodes and slices, and how many there are of each.

Nodes with the same instance type, size and devices are of one type. What tells the same devices on two machines apart
is not part of the type: addresses in networks are left out, and each UUID becomes `{uuid:N}`, for which every simulated
machine has its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dray.api.objects import Object, labels_of, mappings, spec_of, status_of
from dray.api.quantity import Quantity
from dray.fleet.machine_type import API_VERSION
from dray.fleet.stages import ANNOTATION

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ADDRESSES: Final = frozenset({"mac", "ipv4", "ipv6", "alias"})
_OWN_LABELS: Final = frozenset(
    {"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type"}
)
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_NOT_IN_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_BASIC: Final = ("cpu", "memory", "pods")


def describe(nodes: Iterable[Object], slices: Iterable[Object]) -> list[Object]:
    """Returns the documents of a fleet file: machine types, then the fleet; empty without nodes."""
    published = _by_node(slices)
    groups: dict[bytes, list[Object]] = defaultdict(list)
    shapes: dict[bytes, Object] = {}
    for node in nodes:
        shape = _shape(node, published.get(node["metadata"]["name"], []))
        key = msgspec.json.encode(shape, order="sorted")
        shapes[key] = shape
        groups[key].append(node)
    types: list[Object] = []
    machines: list[Object] = []
    taken: set[str] = set()
    for key, members in groups.items():
        name = _name(members[0], taken)
        types.append(_machine_type(name, shapes[key], members))
        machines.append(_machines(name, members))
    if not types:
        return []
    return [*types, {"apiVersion": API_VERSION, "kind": "Fleet", "machines": machines}]


def elsewhere(slices: Iterable[Object]) -> list[str]:
    """Returns the names of slices that belong to no single node, and so to no machine."""
    return [slice_["metadata"]["name"] for slice_ in slices if not spec_of(slice_).get("nodeName")]


def _by_node(slices: Iterable[Object]) -> dict[str, list[Object]]:
    """Returns the slices of each pool's newest generation, by node, ordered by name."""
    newest: dict[tuple[str, str], int] = defaultdict(int)
    local = (slice_ for slice_ in slices if spec_of(slice_).get("nodeName"))
    known = sorted(local, key=lambda each: str(each["metadata"]["name"]))
    for slice_ in known:
        newest[_pool(slice_)] = max(newest[_pool(slice_)], slice_["spec"]["pool"].get("generation") or 0)
    found: dict[str, list[Object]] = defaultdict(list)
    for slice_ in known:
        if (slice_["spec"]["pool"].get("generation") or 0) == newest[_pool(slice_)]:
            found[slice_["spec"]["nodeName"]].append(slice_)
    return found


def _pool(slice_: Object) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _shape(node: Object, slices: list[Object]) -> Object:
    """Describes what nodes of one machine type share."""
    capacity = status_of(node).get("capacity") or {}
    uuids: dict[str, int] = {}
    shape: Object = {
        "instance": labels_of(node).get(_INSTANCE_TYPE, ""),
        "cpus": str(capacity.get("cpu") or "1"),
        "memory": str(capacity.get("memory") or "1Gi"),
        "pods": str(capacity.get("pods") or "110"),
        "architecture": labels_of(node).get("kubernetes.io/arch", "amd64"),
        "allocatable": {name: str(value) for name, value in sorted(capacity.items()) if name not in _BASIC},
        "slices": [],
    }
    for slice_ in slices:
        spec = slice_["spec"]
        made: Object = {"driver": spec["driver"]}
        if spec.get("devices"):
            made["devices"] = [_device(device, uuids) for device in spec["devices"]]
        if spec.get("sharedCounters"):
            made["sharedCounters"] = spec["sharedCounters"]
        shape["slices"].append(made)
    return shape


def _device(device: Object, uuids: dict[str, int]) -> Object:
    """Describes a device without taints: a failed device is no property of the machine type."""
    made = {key: value for key, value in device.items() if key != "taints"}
    attributes = {
        name: _generic(value, uuids)
        for name, value in (device.get("attributes") or {}).items()
        if name.rpartition("/")[2] not in _ADDRESSES
    }
    return {**made, "attributes": attributes} if attributes else made


def _generic(value: Object, uuids: dict[str, int]) -> Object:
    text = value.get("string")
    if not isinstance(text, str):
        return value
    return {"string": _UUID.sub(lambda found: f"{{uuid:{uuids.setdefault(found[0], len(uuids))}}}", text)}


def _name(node: Object, taken: set[str]) -> str:
    """Returns a name after the instance type; a second type of that name gets a number."""
    instance = labels_of(node).get(_INSTANCE_TYPE) or "imported"
    stem = _NOT_IN_NAME.sub("-", instance.lower()).strip("-.")[:40] or "imported"
    name = stem
    number = 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    taken.add(name)
    return name


def _machine_type(name: str, shape: Object, members: list[Object]) -> Object:
    made: Object = {
        "apiVersion": API_VERSION,
        "kind": "MachineType",
        "name": name,
        "source": "own",
        "cpus": max(1, Quantity.parse(shape["cpus"]).value()),
        "memory": shape["memory"],
        "pods": Quantity.parse(shape["pods"]).value(),
        "threadsPerCore": 1,
    }
    if shape["architecture"] == "arm64":
        made["architecture"] = "arm64"
    if labels := _common_labels(members):
        made["labels"] = labels
    if shape["allocatable"]:
        made["allocatable"] = shape["allocatable"]
    if shape["slices"]:
        made["slices"] = shape["slices"]
    return made


def _common_labels(members: list[Object]) -> dict[str, str]:
    first = labels_of(members[0])
    return {
        key: value
        for key, value in sorted(first.items())
        if key not in _OWN_LABELS
        and not key.startswith(ANNOTATION)
        and all(labels_of(member).get(key) == value for member in members)
    }


def _machines(name: str, members: list[Object]) -> Object:
    # All that drivers published is in the type.
    made: Object = {"type": name, "count": len(members), "cpus": "none"}
    taints: list[Any] = [
        {key: value for key, value in taint.items() if key in ("key", "value", "effect")}
        for taint in mappings(spec_of(members[0]).get("taints"))
        if not str(taint.get("key")).startswith("node.kubernetes.io/")
    ]
    return {**made, "taints": taints} if taints else made
