"""nodeAllocatableResources: what of the node's cpu, memory and huge pages a device stands for."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.validation import fields
from dray.api.validation.fields import Errors


def is_node_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def validate(device: Object, path: str) -> Errors:
    capacity = mapping(device.get("capacity"))
    for resource, entry in device["nodeAllocatableResources"].items():
        at = f"{path}.nodeAllocatableResources[{resource}]"
        if not is_node_resource(resource):
            yield errors.invalid(at, resource, "must be cpu, memory or hugepages-<size>")
        if entry.get("mapping") is None and entry.get("overhead") is None:
            yield errors.required(at, "at least one of `mapping` or `overhead` is required")
        if entry.get("mapping") is not None:
            yield from _mapping(entry["mapping"], f"{at}.mapping", capacity)
        if entry.get("overhead") is not None:
            yield from _overhead(entry["overhead"], f"{at}.overhead")


def _mapping(mapping: Object, path: str, capacity: Object) -> Errors:
    yield from fields.union(mapping, ("capacityKey", "deviceMultiplier"), path)
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    if key is not None:
        if not key:
            yield errors.invalid(f"{path}.capacityKey", key, "must not be empty")
        elif key not in capacity:
            yield errors.not_found(f"{path}.capacityKey", key)
        if multiplier is None:
            yield errors.required(f"{path}.capacityMultiplier", "needed with capacityKey")
    elif multiplier is not None:
        yield errors.required(f"{path}.capacityKey", "needed with capacityMultiplier")
    for member in ("capacityMultiplier", "deviceMultiplier"):
        if mapping.get(member) is not None and Quantity.parse(mapping[member]).sign() <= 0:
            yield errors.invalid(f"{path}.{member}", mapping[member], "must be greater than zero")


def _overhead(overhead: Object, path: str) -> Errors:
    if overhead.get("perPod") is None and overhead.get("perContainer") is None:
        yield errors.invalid(path, overhead, "at least one of `perPod` or `perContainer` is required")
    for member in ("perPod", "perContainer"):
        if overhead.get(member) is not None and Quantity.parse(overhead[member]).sign() < 0:
            yield errors.invalid(f"{path}.{member}", overhead[member], "must not be negative")
