"""Workloads from a CSV file in dray's own columns, one line for each workload.

`device_class`, `devices`, `profile` and `selector` say which devices each pod claims; `cpu` and `memory` are
quantities. `pods` is the number of pods that start together (a gang), `queue` and `priority` are those of the pods, and
`arrival` and `run_time` are seconds. Columns may be missing or empty; other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from dray.api.objects import Object
from dray.api.quantity import Quantity, QuantityError
from dray.cel import CelError, compile_selector
from dray.replay.csv_files import TraceError, column_names, read_rows, seconds, whole
from dray.replay.device_units import WHOLE, DeviceName, PublishedDevice
from dray.replay.workloads import Workload
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL

COLUMN: Final = "device_class"
"""The column that tells these files from those of a trace."""
_NAMESPACE: Final = "default"
_MOST_DEVICES: Final = 32
"""A claim can have at most so many devices."""
_MOST_PODS: Final = 10_000
_PROFILE: Final = 'device.attributes["{}"].?profile.orValue("") == "{}"'


@dataclass(frozen=True, slots=True)
class Shape:
    """The requests of each pod of a workload."""

    device_class: str = ""
    devices: int = 0
    selector: str = ""
    cpu: str = "0"
    memory: str = "0"
    priority: int = 0
    queue: str = ""
    pods: int = 1


def is_workload_file(file: Path) -> bool:
    return COLUMN in column_names(file)


def read_workloads(file: Path, published: Mapping[DeviceName, PublishedDevice]) -> list[Workload]:
    """Raises TraceError with the line of what is wrong, OSError if the file cannot be read."""
    return list(read_rows(file, (COLUMN,), lambda row: _workload(row, published)))


def _workload(row: Mapping[str, str], published: Mapping[DeviceName, PublishedDevice]) -> Workload:
    devices = whole(row, "devices", 0, _MOST_DEVICES, 1 if row.get(COLUMN) else 0)
    profile, selector = row.get("profile") or "", _selector(row)
    units = WHOLE
    if profile:
        units, profile_selector = profile_request(profile, published)
        selector = f"({selector}) && {profile_selector}" if selector else profile_selector
    shape = Shape(
        row.get(COLUMN) or "",
        devices,
        selector,
        _quantity(row, "cpu"),
        _quantity(row, "memory"),
        whole(row, "priority", -(2**31), 2**31 - 1, 0),
        row.get("queue") or "",
        whole(row, "pods", 1, _MOST_PODS, 1),
    )
    return workload(shape, units, profile, seconds(row, "arrival") or 0.0, seconds(row, "run_time", 0))


def _selector(row: Mapping[str, str]) -> str:
    selector = row.get("selector") or ""
    if selector:
        try:
            compile_selector(selector)
        except CelError as error:
            raise ValueError(f"selector: {error}") from None
    return selector


def workload(shape: Shape, units: int, profile: str, arrival: float, seconds: float | None) -> Workload:
    """`units` are those of each device."""
    number = shape.devices * shape.pods
    size = profile if profile and number == 1 else f"{number} x {profile}" if profile else str(number)
    return Workload(partial(workload_objects, shape=shape), units * number, size, arrival, seconds, shape.queue)


def profile_request(profile: str, published: Mapping[DeviceName, PublishedDevice]) -> tuple[int, str]:
    """The units of a partition with this profile, and the selector of such partitions."""
    for (driver, _, _), device in published.items():
        if device.attributes.get("profile") == profile:
            return device.units, _PROFILE.format(driver, profile)
    known = sorted({found for device in published.values() if (found := device.attributes.get("profile"))})
    raise TraceError(f"no device has the profile {profile!r}; there are {', '.join(known) or 'none'}")


def _quantity(row: Mapping[str, str], column: str) -> str:
    text = row.get(column) or "0"
    try:
        Quantity.parse(text)
    except QuantityError as error:
        raise ValueError(f"{column}: {error}") from None
    return text


def workload_objects(name: str, shape: Shape) -> list[Object]:
    """The claims, the group if there are several pods, and the pods."""
    names = [name] if shape.pods == 1 else [f"{name}-{number}" for number in range(shape.pods)]
    claims = [_claim(each, shape) for each in names if shape.devices]
    groups = [_group(name, shape)] if shape.pods > 1 else []
    return [*claims, *groups, *(_pod(each, name, shape) for each in names)]


def _claim(name: str, shape: Shape) -> Object:
    exactly: Object = {"deviceClassName": shape.device_class, "allocationMode": "ExactCount", "count": shape.devices}
    if shape.selector:
        exactly["selectors"] = [{"cel": {"expression": shape.selector}}]
    spec = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
    metadata = {"name": name, "namespace": _NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _group(name: str, shape: Shape) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": shape.pods}}}
    metadata = {"name": name, "namespace": _NAMESPACE}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _pod(name: str, group: str, shape: Shape) -> Object:
    requests = {"cpu": shape.cpu, "memory": shape.memory}
    spec: Object = {
        "schedulerName": "default-scheduler",
        "priority": shape.priority,
        "containers": [{"name": "task", "image": "task", "resources": {"requests": requests}}],
    }
    if shape.devices:
        spec["resourceClaims"] = [{"name": "devices", "resourceClaimName": name}]
    if shape.pods > 1:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata: Object = {"name": name, "namespace": _NAMESPACE}
    if shape.queue:
        metadata["labels"] = {QUEUE_LABEL: shape.queue}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
