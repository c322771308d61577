"""Devices and slices of the node `n`, in the short form of the allocator's tests."""

from __future__ import annotations

from typing import Any

from dray.api.objects import Object
from dray.testing import objects
from dray.testing.objects import DRIVER as DRIVER
from dray.testing.objects import attribute as attribute

ROOT = "resource.kubernetes.io/pcieRoot"
_NODES = {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"}


def attributes(**values: Any) -> Object:
    """Attributes by their plain Python values; `root` is the PCIe root."""
    return {ROOT if name == "root" else name: attribute(value) for name, value in values.items()}


def device(name: str, *, capacity: Object | None = None, **values: Any) -> Object:
    return objects.device(name, attributes=attributes(**values), capacity=capacity)


def resource_slice(
    devices: list[Object], *, name: str = "slice", pool: str = "n", count: int = 1, **members: Any
) -> Object:
    where = {} if _NODES & set(members) else {"nodeName": "n"}
    return objects.resource_slice(name, *devices, pool=pool, resourceSliceCount=count, **where, **members)


def counter_slice(sets: dict[str, dict[str, str]], *, name: str = "counters", **members: Any) -> Object:
    shared = [
        {"name": each, "counters": {key: {"value": value} for key, value in counters.items()}}
        for each, counters in sets.items()
    ]
    return resource_slice([], name=name, sharedCounters=shared, **members)


def consumes(counter_set: str, *, groups: list[str] | None = None, **counters: str) -> Object:
    entry: Object = {
        "counterSet": counter_set,
        "counters": {key.replace("_", "-"): {"value": value} for key, value in counters.items()},
    }
    if groups:
        entry["compatibilityGroups"] = groups
    return entry
