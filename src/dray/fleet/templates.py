"""Describes a machine type for autoscalers, before any machine of the type exists.

`slices_of` and `Machine.node` are what a simulated fleet publishes. `karpenter_of` and `capacity_annotations` say the
same in the forms that Karpenter and the Cluster API provider of cluster-autoscaler read. Neither form holds all: what
is lost is told in `Template.notes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dray.api.objects import Object
from dray.drivers.devices import gpu
from dray.fleet.machine import MACHINE_TYPE, PRICE_CLASS, Machine
from dray.fleet.pools import SliceContent, pools_of, slice_of

_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_HOSTNAME: Final = "kubernetes.io/hostname"
_NOT_OF_TYPE: Final = (_HOSTNAME, MACHINE_TYPE, PRICE_CLASS)
"""Labels of one node, or of simulated nodes."""
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage", "pods")
# Karpenter refuses labels of these domains in a NodePool.
_RESERVED: Final = ("kubernetes.io", "k8s.io", "karpenter.sh")
# Karpenter's provider for tests; every other provider has a node class of its own.
_NODE_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


@dataclass(frozen=True, slots=True)
class Template:
    """Documents, and one line about each thing that their form cannot hold."""

    documents: tuple[Object, ...]
    notes: tuple[str, ...] = ()


def slices_of(machine: Machine) -> list[Object]:
    """Returns the ResourceSlices of a machine, without the owner that they have once its Node exists."""
    return [
        slice_of(machine, driver, number, len(contents), content)
        for driver, contents in pools_of(machine).items()
        for number, content in enumerate(contents)
    ]


def karpenter_of(machine: Machine) -> Template:
    """Returns a NodePool, a NodeOverlay for extended resources, and a DRAConfig for the devices of each driver."""
    documents = [_node_pool(machine)]
    extended = _extended(machine)
    if extended:
        requirements = [_in(_INSTANCE_TYPE, machine.type.name)]
        documents.append(
            _object(
                "karpenter.sh/v1alpha1", "NodeOverlay", machine, {"requirements": requirements, "capacity": extended}
            )
        )
    notes = []
    others = pools_of(replace(machine, name=f"{machine.name}-other"))
    for driver, contents in pools_of(machine).items():
        slices = [_common(content, other) for content, other in zip(contents, others[driver], strict=True)]
        left = [[device for device in devices if "consumesCounters" not in device] for devices in slices]
        lost = sum(map(len, slices)) - sum(map(len, left))
        if lost:
            notes.append(f"{_count(lost, 'partition')} of {driver}: a DRAConfig has no shared counters")
        if any(left):
            documents.append(_dra_config(machine, driver, [devices for devices in left if devices]))
    return Template(tuple(documents), tuple(notes))


def capacity_annotations(machine: Machine) -> Template:
    """Returns a merge patch with the annotations of a MachineDeployment, MachineSet or MachinePool."""
    resources = machine.resources()
    annotations = {
        "cpu": resources["cpu"],
        "memory": resources["memory"],
        "ephemeral-disk": resources["ephemeral-storage"],
        "maxPods": resources["pods"],
        "labels": ",".join(f"{name}={value}" for name, value in _labels(machine).items()),
    }
    pools = pools_of(machine)
    whole = [device for content in pools.get(gpu.DRIVER, ()) for device in content.devices if _is_whole(device)]
    extended, notes = _extended(machine), []
    if whole:
        annotations |= {"dra-driver": gpu.DRIVER, "gpu-count": str(len(whole))}
    elif (plugin := min(extended, key=lambda name: (not name.endswith("/gpu"), name), default="")) and (
        extended[plugin].isdecimal()
    ):
        # What a device plugin counts: the annotations have one number, for such a resource or for a driver.
        annotations |= {"gpu-type": plugin, "gpu-count": extended.pop(plugin)}
    notes += [f"resource {name}: annotations have one resource of GPUs, or a driver" for name in extended]
    for driver, contents in pools.items():
        count = sum(len(content.devices) for content in contents) - (len(whole) if driver == gpu.DRIVER else 0)
        if count:
            notes.append(f"{_count(count, 'device')} of {driver}: annotations describe whole GPUs of one driver only")
    if whole:
        notes.append("attributes and capacity of GPUs: the autoscaler gives each only the attribute type")
    named = {f"{_CAPACITY}/{name}": value for name, value in annotations.items()}
    return Template(({"metadata": {"annotations": named}},), tuple(notes))


def _is_whole(device: Object) -> bool:
    """Returns True for a GPU that one claim gets entirely."""
    return "consumesCounters" not in device and not device.get("allowMultipleAllocations")


def _node_pool(machine: Machine) -> Object:
    labels = _labels(machine)
    wanted = (_INSTANCE_TYPE, "kubernetes.io/arch", "kubernetes.io/os")
    spec: Object = {
        "nodeClassRef": dict(_NODE_CLASS),
        "requirements": [_in(name, labels.pop(name)) for name in wanted],
    }
    own = {name: value for name, value in labels.items() if not name.partition("/")[0].endswith(_RESERVED)}
    template = {**({"metadata": {"labels": own}} if own else {}), "spec": spec}
    return _object("karpenter.sh/v1", "NodePool", machine, {"template": template})


def _dra_config(machine: Machine, driver: str, slices: list[list[Object]]) -> Object:
    pool = {
        "name": _name(machine),
        "nodeSelectorTerms": [{"matchExpressions": [_in(_INSTANCE_TYPE, machine.type.name)]}],
        "resourceSlices": [{"devices": devices} for devices in slices],
    }
    made = _object("test.karpenter.sh/v1alpha1", "DRAConfig", machine, {"driver": driver, "pools": [pool]})
    made["metadata"]["name"] += f"-{driver}"
    return made


def _common(content: SliceContent, other: SliceContent) -> list[Object]:
    """Returns the devices with the attributes that are the same on every machine of the type: no UUIDs, no MACs."""
    made = []
    for device, twin in zip(content.devices, other.devices, strict=True):
        own, theirs = device.get("attributes", {}), twin.get("attributes", {})
        made.append({**device, "attributes": {name: own[name] for name in own if own[name] == theirs.get(name)}})
    return made


def _extended(machine: Machine) -> dict[str, str]:
    return {name: amount for name, amount in machine.resources().items() if name not in _STANDARD}


def _labels(machine: Machine) -> dict[str, str]:
    return {name: value for name, value in machine.labels().items() if name not in _NOT_OF_TYPE}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _name(machine: Machine) -> str:
    return machine.type.name.replace(".", "-")


def _object(api_version: str, kind: str, machine: Machine, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": _name(machine)}, "spec": spec}
