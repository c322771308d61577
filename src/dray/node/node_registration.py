"""Registration of a node: its Node object with capacity, addresses and conditions, and its lease."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, condition_of, mapping
from dray.api.volumes import VOLUME_DIRECTORY, VOLUMES_TO_REMOVE, volumes_to_remove
from dray.client.api import ApiClient
from dray.client.clock import TimeOfDay, micro_timestamp, timestamp
from dray.client.errors import AlreadyExists, ClientError, NotFound
from dray.client.interface import PatchType, WriteOptions
from dray.node.eviction.signals import memory
from dray.node.runtimes.interface import Image
from dray.node.volumes import PERSISTENT
from dray.process import beneath

_logger = logging.getLogger(__name__)
NODES: Final = built_in("v1", "Node")
LEASES: Final = built_in("coordination.k8s.io/v1", "Lease")
LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_RENEW_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 60.0
_MANAGER: Final = WriteOptions("dray-node")
_MOST_IMAGES: Final = 50
_MOST_NAMES: Final = 5
# By condition: the reasons for the good and the bad state.
_REASONS: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "KubeletHasDiskPressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "KubeletHasInsufficientPID"),
    "Ready": ("KubeletReady", "KubeletNotReady"),
}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts of a machine, read once at the start of the agent."""

    name: str
    address: str
    root: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()
    port: int = 10250
    runtime_version: str = ""
    most_pods: int = 110
    resources: Mapping[str, str] = field(default_factory=dict)

    @property
    def volumes(self) -> Path:
        """Returns the directory of volumes that are made for claims."""
        return self.root.absolute() / PERSISTENT

    def node(self) -> Object:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _arch(),
            **self.labels,
        }
        metadata = {"name": self.name, "labels": labels, "annotations": {VOLUME_DIRECTORY: str(self.volumes)}}
        made: Object = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        if self.taints:
            made["spec"] = {"taints": list(self.taints)}
        return made

    def status(
        self, node: Object, now: datetime, pressure: Collection[str] = (), images: Sequence[Image] = ()
    ) -> Object:
        """Returns the status of the Node; `pressure` has the pressure conditions that are true."""
        disk = shutil.disk_usage(self.root)
        resources = {
            "cpu": str(os.cpu_count() or 1),
            "memory": f"{memory('MemTotal') >> 10}Ki",
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
            "images": _images(images),
            "conditions": self._conditions(node, now, pressure),
        }

    def _conditions(self, node: Object, now: datetime, pressure: Collection[str]) -> list[Object]:
        made = []
        for type_, (good, bad) in _REASONS.items():
            holds = type_ in pressure
            value = "True" if holds or type_ == "Ready" else "False"
            before = condition_of(node, type_, value) or {}
            made.append(
                {
                    "type": type_,
                    "status": value,
                    "reason": bad if holds else good,
                    "message": "the node agent is posting ready status" if type_ == "Ready" else None,
                    "lastHeartbeatTime": timestamp(now),
                    "lastTransitionTime": before.get("lastTransitionTime") or timestamp(now),
                }
            )
        return made


class NodeRegistration:
    """Registers and renews a node.

    `pressure` returns the pressure conditions that are true, `changed` writes them at once.
    """

    def __init__(
        self,
        client: ApiClient,
        facts: NodeFacts,
        time: TimeOfDay,
        pressure: Callable[[], Collection[str]] = lambda: (),
        *,
        images: Callable[[], Awaitable[list[Image]]],
    ) -> None:
        self._pressure = pressure
        self._dirty = asyncio.Event()
        self._client = client
        self._facts = facts
        self._time = time
        self._images = images
        self._node: Object = {}
        self.registered = asyncio.Event()

    @property
    def node(self) -> Object:
        """Returns the Node as last read; empty before it is registered."""
        return self._node

    async def read(self) -> Object:
        """Reads the Node; returns the last one read if the server does not answer."""
        with suppress(ClientError):
            self._node = await self._client.get(NODES, self._facts.name)
        return self._node

    async def run(self) -> None:
        """Registers the node, with retries, and renews its lease until it is cancelled."""
        while not self.registered.is_set():
            try:
                await self._register()
                self.registered.set()
            except ClientError as error:
                _logger.warning("node %s is not registered yet: %s", self._facts.name, error)
                await asyncio.sleep(1)
        await asyncio.gather(
            self._again_and_again(self._renew, _RENEW_SECONDS, asyncio.Event()),
            self._again_and_again(self._write_status, _STATUS_SECONDS, self._dirty),
        )

    def changed(self) -> None:
        self._dirty.set()

    async def _again_and_again(
        self, work: Callable[[], Awaitable[None]], seconds: float, at_once: asyncio.Event
    ) -> None:
        while True:
            at_once.clear()
            try:
                await work()
            except ClientError as error:
                _logger.warning("node %s: %s", self._facts.name, error)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await at_once.wait()

    async def _register(self) -> None:
        try:
            self._node = await self._client.create(NODES, self._facts.node(), options=_MANAGER)
        except AlreadyExists:
            metadata = self._facts.node()["metadata"]
            body = {"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}}
            self._node = await self._client.patch(NODES, self._facts.name, body)
        await self._write_status()
        await self._renew()

    async def _write_status(self) -> None:
        status = self._facts.status(self._node, self._time.now(), self._pressure(), await self._images())
        self._node = await self._client.patch(
            NODES, self._facts.name, {"status": status}, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        if names := volumes_to_remove(self._node):
            await asyncio.to_thread(remove_volumes, self._facts.volumes, names)
            pin = {"resourceVersion": self._node["metadata"]["resourceVersion"]}
            body = {"metadata": {**pin, "annotations": {VOLUMES_TO_REMOVE: None}}}
            self._node = await self._client.patch(NODES, self._facts.name, body)

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


def remove_volumes(directory: Path, names: Sequence[str]) -> None:
    """Deletes the directories of volumes that were made here; ignores names that lead elsewhere."""
    for name in names:
        if name.startswith("pvc-") and "/" not in name:
            beneath.remove_tree(directory / name)


def _images(images: Sequence[Image]) -> list[Object]:
    """Returns the largest images, as many as a kubelet reports."""
    largest = sorted(images, key=lambda each: each.size, reverse=True)[:_MOST_IMAGES]
    return [{"names": list(image.names[:_MOST_NAMES]), "sizeBytes": image.size} for image in largest]


def _arch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


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
