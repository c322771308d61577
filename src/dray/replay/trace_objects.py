"""API objects for the nodes and tasks of a trace.

A GPU is a device that allows multiple allocations, with a capacity of 1,000 milli-units. A task is a pod with a claim
for a number of devices with so many units each; its models are a selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from dray.api.objects import Object
from dray.replay.device_units import WHOLE
from dray.replay.traces import Machine, Task
from dray.replay.workloads import Workload, World

_DRIVER: Final = "gpu.example.com"
_CLASS: Final = "gpu"
_VERSION: Final = "resource.k8s.io/v1"


def trace_world(machines: Iterable[Machine]) -> World:
    made = [each for machine in machines for each in machine_objects(machine)]
    objects = {kind: [each for each in made if each["kind"] == kind] for kind in ("Node", "ResourceSlice")}
    return World({**objects, "DeviceClass": [device_class()], "PodGroup": []}, frozenset([_DRIVER]))


def trace_workload(task: Task) -> Workload:
    size = f"{task.units / WHOLE:g}"
    return Workload(partial(task_objects, task=task), task.units, size, task.created, task.seconds)


def device_class() -> Object:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]}
    return {"apiVersion": _VERSION, "kind": "DeviceClass", "metadata": {"name": _CLASS}, "spec": spec}


def machine_objects(machine: Machine) -> Iterator[Object]:
    """The Node, and the ResourceSlice with its GPUs."""
    amounts = {"cpu": f"{machine.cpu}m", "memory": f"{machine.memory}Mi", "pods": "1000"}
    metadata = {"name": machine.name, "labels": {"kubernetes.io/hostname": machine.name}}
    status = {"capacity": amounts, "allocatable": amounts}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": machine.model}},
            "capacity": {"milli": {"value": str(WHOLE)}},
            "allowMultipleAllocations": True,
        }
        for number in range(machine.gpus)
    ]
    pool = {"name": machine.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": machine.name, "pool": pool, "devices": devices}
    yield {"apiVersion": _VERSION, "kind": "ResourceSlice", "metadata": {"name": machine.name}, "spec": spec}


def task_objects(name: str, task: Task) -> list[Object]:
    """The claim, if the task requests GPUs, and the pod."""
    requests = {"cpu": f"{task.cpu}m", "memory": f"{task.memory}Mi"}
    spec: Object = {
        "schedulerName": "default-scheduler",
        "preemptionPolicy": "Never",
        "containers": [{"name": "task", "image": "task", "resources": {"requests": requests}}],
    }
    found = []
    if task.gpus:
        found.append(_claim(name, task))
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    metadata = {"name": name, "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return [*found, pod]


def _claim(name: str, task: Task) -> Object:
    exactly: Object = {
        "deviceClassName": _CLASS,
        "allocationMode": "ExactCount",
        "count": task.gpus,
        "capacity": {"requests": {"milli": str(task.milli)}},
    }
    if task.models:
        models = ", ".join(f'"{model}"' for model in task.models.split("|"))
        exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{_DRIVER}"].model in [{models}]'}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": _VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
