"""A cluster with one node, its kubelet, and the GPU driver of a machine; claims are allocated by hand."""

import json
import os
from contextlib import asynccontextmanager

from dray.drivers.registry import load
from dray.node.runtimes.shim import system
from dray.testing.cluster import kind_of
from dray.testing.objects import allocation, claim, consumer, pod, request
from tests.node.clusters import NODE, kubelet_on_cluster

GPU = "gpu.nvidia.com"
API = "resource.nvidia.com/v1beta1"


def config(kind, *requests, source="FromClaim", **members):
    """An entry of an allocation."""
    parameters = {"apiVersion": API, "kind": kind, **members}
    named = {"requests": list(requests)} if requests else {}
    return {"source": source, **named, "opaque": {"driver": GPU, "parameters": parameters}}


def mps(*requests, kind="GpuConfig", **limits):
    return config(kind, *requests, sharing={"strategy": "MPS", **({"mpsConfig": limits} if limits else {})})


def time_slicing(interval=None, *requests, kind="GpuConfig"):
    extra = {} if interval is None else {"timeSlicingConfig": {"interval": interval}}
    return config(kind, *requests, sharing={"strategy": "TimeSlicing", **extra})


async def allocated_pod(cluster, name, devices, configs=(), **members):
    """A pod whose claim has these devices, one for each request r0, r1, …; gives the claim's uid."""
    made = await cluster.create(pod(name, claims=[name], nodeName=NODE))
    requests = [request(f"r{number}") for number in range(len(devices))]
    stored = await cluster.create(claim(name, *requests))
    given = allocation(pool=NODE, nodeName=NODE)
    results = [
        {"request": f"r{number}", "driver": GPU, "pool": NODE, "device": device, **members}
        for number, device in enumerate(devices)
    ]
    given["devices"] = {"results": results, "config": list(configs)}
    status = {"allocation": given, "reservedFor": [consumer(made)]}
    await cluster.client.update_status(kind_of("ResourceClaim"), {**stored, "status": status})
    return stored["metadata"]["uid"]


class World:
    def __init__(self, cluster, kubelet, machine):
        self.cluster = cluster
        self.kubelet = kubelet
        self.machine = machine

    @asynccontextmanager
    async def driver(self, options=None, **settings):
        """`options` are those of the runner."""
        driver = load("gpu", self.machine.settings(**settings))
        async with self.kubelet.running(driver, **(options or {})) as runner:
            await self.kubelet.registered(GPU)
            yield runner

    async def place(self, name, *devices, configs=(), **members):
        return await allocated_pod(self.cluster, name, devices, configs, **members)

    async def start(self, name, *devices, configs=(), **members):
        """One attempt; gives the uid of the claim."""
        uid = await self.place(name, *devices, configs=configs, **members)
        await self.kubelet.try_pod(name)
        return uid

    def cdi(self, uid):
        """The CDI file of a claim."""
        content = json.loads((self.kubelet.cdi / f"k8s.{GPU}-claim_{uid}.json").read_text())
        assert content["kind"] == f"k8s.{GPU}/claim"
        return content

    def edits(self, uid):
        """Returns the edits in the CDI file of a claim, by device: its own edits first, then the shared edits."""
        content, prefix = self.cdi(uid), f"{uid}-"
        shared = content["containerEdits"]
        return {
            device["name"].removeprefix(prefix): {
                member: found
                for member in ("env", "deviceNodes", "mounts", "hooks")
                if (found := [*device["containerEdits"].get(member, ()), *shared.get(member, ())])
            }
            for device in content["devices"]
        }

    async def devices(self):
        """Returns the published devices by name."""
        slices = await self.cluster.list("ResourceSlice")
        return {each["name"]: each for found in slices for each in found["spec"].get("devices", ())}

    @property
    def directory(self):
        return self.kubelet.root / "plugins" / GPU

    def mps_directories(self):
        directory = self.directory / "mps"
        return list(directory.iterdir()) if directory.exists() else []

    def leftovers(self):
        """All that a claim may leave behind."""
        found = [path.name for path in self.kubelet.cdi.iterdir()] if self.kubelet.cdi.exists() else []
        records = self.directory / "claims"
        found += map(str, [*(records.iterdir() if records.exists() else ()), *self.mps_directories()])
        for number, gpu in enumerate(self.machine.gpus):
            found += [f"instance {each}" for each in self.machine.instances(number)]
            found += (
                [f"compute mode of {gpu.uuid}"] if (self.machine.read("compute_mode", number) or "0") != "0" else []
            )
            found += [f"time slice of {gpu.uuid}"] if self.machine.time_slice(gpu.uuid) else []
            found += [f"MIG mode of {gpu.uuid}"] if self.machine.read("mig_mode", number) == "1" else []
        return found + [f"daemon {each}" for each in self.machine.daemons()]


@asynccontextmanager
async def gpu_world(machine):
    async with kubelet_on_cluster() as (cluster, kubelet):
        # Its daemons are found by the directory they belong to.
        machine.root_of_daemons = kubelet.root
        try:
            yield World(cluster, kubelet, machine)
        finally:
            clean_up(machine)


def clean_up(machine):
    """After a test that failed, or one that leaves its claims prepared."""
    machine.kill_daemons()
    for directory in machine.root_of_daemons.glob(f"plugins/{GPU}/mps/*/*"):
        if os.path.ismount(directory):
            system.unmount(str(directory))
