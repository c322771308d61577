"""Tasks of a GPU cluster, played against the scheduler's core: one after the other, a task that does not fit is gone.

A GPU is a device that allows multiple allocations, with 1,000 milli-units to give; a task asks for some of them with so
many units each, for models by a selector, and for cpu and memory as any pod. What counts is the part of all units that
is allocated in the end.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from dray.allocation import POLICIES
from dray.scheduling.model.actions import Bind
from tests.scheduling.core import Core

DRIVER = "gpu.example.com"
WHOLE = 1000
_RESOURCE = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Task:
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: str

    @property
    def units(self) -> int:
        return self.gpus * self.milli


def machines(folder: Path) -> list[Machine]:
    return [
        Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / "openb_node_list_gpu_node.csv.gz")
    ]


def tasks(folder: Path, variant: str) -> list[Task]:
    return [
        Task(
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["num_gpu"]),
            int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            row.get("gpu_spec") or "",
        )
        for row in _rows(folder / f"openb_pod_list_{variant}.csv.gz")
    ]


def _rows(file: Path) -> Iterable[dict[str, str]]:
    with gzip.open(file, "rt") as text:
        yield from csv.DictReader(text)


def drawn(known: list[Task], units: float, seed: int) -> list[Task]:
    """All tasks in some order, then further ones, until they ask for so many units."""
    random = Random(seed)
    rest = random.sample(known, len(known))
    found, asked = [], 0
    while asked < units:
        task = rest.pop() if rest else random.choice(known)
        found.append(task)
        asked += task.units
    return found


def played(
    cluster: list[Machine],
    sequence: Iterable[Task],
    *,
    policy: str = "kubernetes",
    seed: int = 0,
) -> float:
    """The part of all units that is allocated, in percent."""
    documents = [document for machine in cluster for document in (_node(machine), _slice(machine))]
    core = Core(_class(), *documents, policy=POLICIES[policy], seed=seed)
    allocated = 0
    for number, task in enumerate(sequence):
        name = f"task-{number}"
        if task.gpus:
            core.put(_claim(name, task))
        core.put(_pod(name, task))
        action = core.scheduler.next(core.now)
        if isinstance(action, Bind):
            core.do(action)
            allocated += task.units
        else:
            core.remove("Pod", name)
            if task.gpus:
                core.remove("ResourceClaim", name)
    return 100 * allocated / (WHOLE * sum(machine.gpus for machine in cluster))


def _node(machine: Machine) -> dict[str, Any]:
    amounts = {"cpu": f"{machine.cpu}m", "memory": f"{machine.memory}Mi", "pods": "1000"}
    metadata = {"name": machine.name, "labels": {"kubernetes.io/hostname": machine.name}}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def _slice(machine: Machine) -> dict[str, Any]:
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
    spec = {"driver": DRIVER, "nodeName": machine.name, "pool": pool, "devices": devices}
    return {"apiVersion": _RESOURCE, "kind": "ResourceSlice", "metadata": {"name": machine.name}, "spec": spec}


def _class() -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return {"apiVersion": _RESOURCE, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def _claim(name: str, task: Task) -> dict[str, Any]:
    exactly: dict[str, Any] = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": task.gpus,
        "capacity": {"requests": {"milli": str(task.milli)}},
    }
    if task.models:
        models = ", ".join(f'"{each}"' for each in task.models.split("|"))
        expression = f'device.attributes["{DRIVER}"].model in [{models}]'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": _RESOURCE, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def _pod(name: str, task: Task) -> dict[str, Any]:
    requests = {"cpu": f"{task.cpu}m", "memory": f"{task.memory}Mi"}
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "preemptionPolicy": "Never",
        "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
    }
    if task.gpus:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}}
