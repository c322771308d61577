"""Fields of features that are switched off: dropped before validation, unless the stored object already uses them.

A `Feature` says where its fields lie; "in use" means that one of them is there in the stored object. Whether a field
is used is a question to the whole object, not to the item it stands in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from dray.api.catalogue import Kind
from dray.api.gates import FeatureGates
from dray.api.objects import Object

_REQUESTS = ("spec.devices.requests[].exactly", "spec.devices.requests[].firstAvailable[]")
_RESULTS = "status.allocation.devices.results[]"
_DEVICES = "spec.devices[]"
_TEMPLATES = ("spec", "spec.podGroupTemplates[]", "spec.compositePodGroupTemplates[]")


@dataclass(frozen=True, slots=True)
class Feature:
    """Paths of fields that require all these gates."""

    kinds: tuple[str, ...]
    gates: tuple[str, ...]
    fields: tuple[str, ...]


def _under(parents: tuple[str, ...], *members: str) -> tuple[str, ...]:
    return tuple(f"{parent}.{member}" for parent in parents for member in members)


_CLAIM = ("ResourceClaim", "ResourceClaimTemplate")
_SLICE = ("ResourceSlice",)
_GROUPS = ("PodGroup", "CompositePodGroup", "Workload")

FEATURES: tuple[Feature, ...] = (
    Feature(_CLAIM, ("DRAPrioritizedList",), ("spec.devices.requests[].firstAvailable",)),
    Feature(_CLAIM, ("DRADeviceTaints",), (*_under(_REQUESTS, "tolerations"), f"{_RESULTS}.tolerations")),
    Feature(
        _CLAIM,
        ("DRAAdminAccess",),
        ("spec.devices.requests[].exactly.adminAccess", f"{_RESULTS}.adminAccess"),
    ),
    Feature(
        _CLAIM,
        ("DRAConsumableCapacity",),
        (
            "spec.devices.constraints[].distinctAttribute",
            *_under(_REQUESTS, "capacity"),
            f"{_RESULTS}.shareID",
            f"{_RESULTS}.consumedCapacity",
            "status.devices[].shareID",
        ),
    ),
    Feature(_CLAIM, ("DRADerivedAttributes",), _under(_REQUESTS, "derivedAttributes")),
    Feature(_CLAIM, ("DRAResourceClaimDeviceStatus",), ("status.devices",)),
    Feature(
        _CLAIM,
        ("DRADeviceBindingConditions",),
        (f"{_RESULTS}.bindingConditions", f"{_RESULTS}.bindingFailureConditions"),
    ),
    Feature(_CLAIM, ("DRAOptionalNodeOperations",), (f"{_RESULTS}.skipNodeOperations",)),
    Feature(_SLICE, ("DRADeviceTaints",), (f"{_DEVICES}.taints",)),
    Feature(
        _SLICE,
        ("DRAConsumableCapacity",),
        (f"{_DEVICES}.allowMultipleAllocations", f"{_DEVICES}.capacity[].requestPolicy"),
    ),
    Feature(
        _SLICE,
        ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        _under((_DEVICES,), "bindsToNode", "bindingConditions", "bindingFailureConditions"),
    ),
    Feature(_SLICE, ("DRAOptionalNodeOperations",), ("spec.skipNodeOperations",)),
    Feature(
        _SLICE,
        ("DRAPartitionableDevices",),
        (
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            *_under((_DEVICES,), "consumesCounters", "nodeName", "nodeSelector", "allNodes"),
        ),
    ),
    Feature(_SLICE, ("DRADeviceCompatibilityGroups",), (f"{_DEVICES}.consumesCounters[].compatibilityGroups",)),
    Feature(_SLICE, ("DRANodeAllocatableResources",), (f"{_DEVICES}.nodeAllocatableResources",)),
    Feature(
        _SLICE,
        ("DRAListTypeAttributes",),
        _under((f"{_DEVICES}.attributes[]",), "ints", "bools", "strings", "versions"),
    ),
    Feature(_SLICE, ("DRAPartitionableDevicesType",), ("spec.partitionTypeAttribute",)),
    Feature(
        ("ResourcePoolStatusRequest",),
        ("DRAPartitionableDevicesType",),
        ("spec.defaultPartitionTypeAttribute",),
    ),
    Feature(("DeviceClass",), ("DRAExtendedResource",), ("spec.extendedResourceName",)),
    Feature(
        _GROUPS,
        ("DRAWorkloadResourceClaims",),
        (*_under(_TEMPLATES, "resourceClaims"), "status.resourceClaimStatuses"),
    ),
    Feature(
        ("PodGroup", "Workload"),
        ("TopologyAwareWorkloadScheduling",),
        _under(_TEMPLATES[:2], "schedulingConstraints"),
    ),
    Feature(_GROUPS, ("PodGroupPreemptionPolicy",), _under(_TEMPLATES, "preemptionPolicy")),
    Feature(
        ("PodGroup", "Workload"),
        ("CompositePodGroup",),
        ("spec.parentCompositePodGroupName", "spec.compositePodGroupTemplates"),
    ),
    Feature(("Pod",), ("GenericWorkload",), ("spec.schedulingGroup",)),
    Feature(("Job",), ("WorkloadWithJob",), ("spec.scheduling",)),
    Feature(("Pod",), ("DRANodeAllocatableResources",), ("status.nodeAllocatableResourceClaimStatuses",)),
)


def drop(obj: Object, old: Object | None, kind: Kind, gates: FeatureGates) -> None:
    """Removes from `obj` the fields of features that are off and that `old` does not use."""
    for feature in _switched_off(kind.name, gates):
        fields = feature.fields
        if kind.name == "ResourceClaimTemplate":
            fields = tuple(f"spec.{field}" for field in fields if field.startswith("spec."))
        if old is not None and any(_used(old, field) for field in fields):
            continue
        for parent, members in _by_parent(fields).items():
            holders = _holders(obj, parent)
            if not members.isdisjoint(set().union(*holders)):
                for holder in holders:
                    for member in members & holder.keys():
                        del holder[member]


@cache
def _switched_off(kind: str, gates: FeatureGates) -> tuple[Feature, ...]:
    return tuple(f for f in FEATURES if kind in f.kinds and not all(gates[gate] for gate in f.gates))


@cache
def _by_parent(fields: tuple[str, ...]) -> dict[str, set[str]]:
    grouped: dict[str, set[str]] = {}
    for field in fields:
        parent, _, member = field.rpartition(".")
        grouped.setdefault(parent, set()).add(member)
    return grouped


def _used(obj: Object, field: str) -> bool:
    parent, _, member = field.rpartition(".")
    return any(holder.get(member) not in (None, [], {}) for holder in _holders(obj, parent))


def _holders(obj: Object, path: str) -> list[Object]:
    """Returns the objects at a path; `[]` after a step expands the items of a list or a map."""
    found: list[Any] = [obj]
    for step in path.split("."):
        name, spread, _ = step.partition("[")
        inner = [value for holder in found if (value := holder.get(name)) is not None]
        if spread:
            inner = list(chain.from_iterable([value.values() if isinstance(value, dict) else value for value in inner]))
        found = inner
    return found
