"""Registration of a node: its Node object with capacity, addresses and conditions, and its lease."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, condition_of, mapping
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay, micro_timestamp, timestamp
from dray.client.errors import AlreadyExists, ClientError, NotFound
from dray.client.interface import PatchType, WriteOptions

_logger = logging.getLogger(__name__)
NODES: Final = built_in("v1", "Node")
LEASES: Final = built_in("coordination.k8s.io/v1", "Lease")
LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEW_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 60.0
_MANAGER: Final = WriteOptions("dray-node")
# Less memory or disk than this and the node says so.
_MEMORY_BYTES: Final = 100 << 20
_DISK_SHARE: Final = 0.10


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a machine is: made once, at the start of the agent."""

    name: str
    address: str
    root: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    port: int = 10250
    runtime_version: str = ""
    most_pods: int = 110
    resources: Mapping[str, str] = field(default_factory=dict)

    def node(self) -> Object:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _arch(),
            **self.labels,
        }
        made: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}}
        if self.taints:
            made["spec"] = {"taints": list(self.taints)}
        return made

    def status(self, node: Object, now: datetime) -> Object:
        disk = shutil.disk_usage(self.root)
        resources = {
            "cpu": str(os.cpu_count() or 1),
            "memory": f"{_memory('MemTotal') >> 10}Ki",
            "pods": str(self.most_pods),
            "ephemeral-storage": f"{disk.total >> 10}Ki",
        }
        known = mapping(mapping(node.get("status")).get("capacity"))
        resources = {**known, **resources, **self.resources}
        return {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "nodeInfo": _node_info(self.runtime_version),
            "conditions": self._conditions(node, now, disk.free / max(disk.total, 1)),
        }

    def _conditions(self, node: Object, now: datetime, free: float) -> list[Object]:
        low = _memory("MemAvailable") < _MEMORY_BYTES
        full = free < _DISK_SHARE
        said = [
            ("MemoryPressure", low, "KubeletHasInsufficientMemory" if low else "KubeletHasSufficientMemory"),
            ("DiskPressure", full, "KubeletHasDiskPressure" if full else "KubeletHasNoDiskPressure"),
            ("PIDPressure", False, "KubeletHasSufficientPID"),
            ("Ready", True, "KubeletReady"),
        ]
        made = []
        for type_, holds, reason in said:
            value = "True" if holds else "False"
            before = condition_of(node, type_, value) or {}
            made.append(
                {
                    "type": type_,
                    "status": value,
                    "reason": reason,
                    "message": "the node agent is posting ready status" if type_ == "Ready" else None,
                    "lastHeartbeatTime": timestamp(now),
                    "lastTransitionTime": before.get("lastTransitionTime") or timestamp(now),
                }
            )
        return made


class NodeRegistration:
    def __init__(self, client: ApiClient, facts: NodeFacts, time: TimeOfDay) -> None:
        self._client = client
        self._facts = facts
        self._time = time
        self._node: Object = {}
        self.registered = asyncio.Event()

    @property
    def node(self) -> Object:
        """As it was last seen; empty before it is registered."""
        return self._node

    async def run(self) -> None:
        """Registers the node, tries until that works, and keeps it alive until cancelled."""
        while not self.registered.is_set():
            try:
                await self._register()
                self.registered.set()
            except ClientError as error:
                _logger.warning("node %s is not registered yet: %s", self._facts.name, error)
                await asyncio.sleep(1)
        await asyncio.gather(
            self._again_and_again(self._renew, _RENEW_SECONDS),
            self._again_and_again(self._write_status, _STATUS_SECONDS),
        )

    async def _again_and_again(self, work: object, seconds: float) -> None:
        assert callable(work)
        while True:
            try:
                await work()
            except ClientError as error:
                _logger.warning("node %s: %s", self._facts.name, error)
            await asyncio.sleep(seconds)

    async def _register(self) -> None:
        try:
            self._node = await self._client.create(NODES, self._facts.node(), options=_MANAGER)
        except AlreadyExists:
            labels = self._facts.node()["metadata"]["labels"]
            body = {"metadata": {"labels": labels}}
            self._node = await self._client.patch(NODES, self._facts.name, body)
        await self._write_status()
        await self._renew()

    async def _write_status(self) -> None:
        status = self._facts.status(self._node, self._time.now())
        self._node = await self._client.patch(
            NODES, self._facts.name, {"status": status}, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def _renew(self) -> None:
        name = self._facts.name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": micro_timestamp(self._time.now()),
        }
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._node["metadata"]["uid"]}
            metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, lease, options=_MANAGER)


def _arch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _memory(name: str) -> int:
    """In bytes, by its name in /proc/meminfo."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _node_info(runtime: str) -> Object:
    release = dict(line.partition("=")[::2] for line in _read("/etc/os-release").splitlines())
    return {
        "machineID": _read("/etc/machine-id"),
        "systemUUID": _read("/etc/machine-id"),
        "bootID": _read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": release.get("PRETTY_NAME", "").strip('"'),
        "containerRuntimeVersion": runtime,
        "kubeletVersion": "v1.37.0",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": _arch(),
    }
