"""The claim and the pod that `dray run` makes from its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Object

GPUS: Final = "gpu"
"""The request of --gpu."""
CPUS: Final = "cpu"
CPU_CLASS: Final = "dra.cpu"
CONTAINER: Final = "main"
NO_IMAGE: Final = "none"
"""Image of a pod whose command is a program of the machine."""
_STANDARD: Final = "resource.kubernetes.io"
_DEVICES: Final = "devices"
_PREFIX: Final = "run-"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """`cpus` asks for so much of a device's capacity instead of a number of devices."""

    name: str
    device_class: str
    count: int = 1
    memory: str = ""
    cpus: int = 0
    selectors: tuple[str, ...] = ()

    def document(self) -> Object:
        exactly: Object = {"deviceClassName": self.device_class}
        if self.count != 1:
            exactly["count"] = self.count
        if self.selectors:
            exactly["selectors"] = [{"cel": {"expression": selector}} for selector in self.selectors]
        if self.memory:
            exactly["capacity"] = {"requests": {"memory": self.memory}}
        if self.cpus:
            exactly["capacity"] = {"requests": {f"{CPU_CLASS}/cpu": str(self.cpus)}}
        return {"name": self.name, "exactly": exactly}


@dataclass(frozen=True, slots=True)
class Run:
    """Options of `dray run`. `match` names attributes that all devices but CPUs share; an empty `name` is generated."""

    name: str
    namespace: str
    command: Sequence[str]
    requests: Sequence[DeviceRequest] = ()
    match: Sequence[str] = ()
    image: str = ""
    working_dir: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    among: Sequence[str] = ()
    """Nodes that can run the command; empty if all can."""
    priority_class: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod, such as the one that names its queue."""
    time_limit: int = 0
    """Seconds the command may run; 0 for no limit."""
    stdin: bool = False
    tty: bool = False

    def claim(self) -> Object:
        devices: Object = {"requests": [request.document() for request in self.requests]}
        matched = [request.name for request in self.requests if not request.cpus]
        if self.match and matched:
            devices["constraints"] = [{"requests": matched, "matchAttribute": each} for each in self.match]
        return self._object("resource.k8s.io/v1", "ResourceClaim", {"devices": devices})

    def pod(self) -> Object:
        container: Object = {
            "name": CONTAINER,
            "image": self.image or NO_IMAGE,
            "command": list(self.command),
            "env": [{"name": name, "value": value} for name, value in self.environment.items()],
        }
        if self.stdin:
            # The input of a pipe ends with it; a terminal may come back after its connection was lost.
            container |= {"stdin": True, "stdinOnce": not self.tty, "tty": self.tty}
        if self.working_dir:
            container["workingDir"] = self.working_dir
        spec: Object = {"restartPolicy": "Never", "containers": [container]}
        if self.requests:
            spec["resourceClaims"] = [{"name": _DEVICES, "resourceClaimName": self.name}]
            container["resources"] = {"claims": [{"name": _DEVICES}]}
        if self.node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        if self.among:
            spec["affinity"] = {
                "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_named(node) for node in self.among]}}
            }
        if self.priority_class:
            spec["priorityClassName"] = self.priority_class
        if self.time_limit:
            spec["activeDeadlineSeconds"] = self.time_limit
        pod = self._object("v1", "Pod", spec)
        pod["metadata"]["labels"] |= self.labels
        return pod

    def _object(self, api_version: str, kind: str, spec: Object) -> Object:
        named = {"name": self.name} if self.name else {"generateName": _PREFIX}
        metadata = {**named, "namespace": self.namespace, "labels": {"app.kubernetes.io/managed-by": "dray-run"}}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _named(node: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def attribute(text: str) -> str:
    """Adds the domain to an attribute; a name without one is a standard attribute, such as pcieRoot."""
    return text if "/" in text else f"{_STANDARD}/{text}"


def owned(pod: Object) -> Object:
    """A patch that makes the pod the owner of a claim, which then goes with it."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {"metadata": {"ownerReferences": [owner]}}
