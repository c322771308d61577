"""Drivers that do not answer while pods are deleted: the pods stay until they do, and no other pod waits for that."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.kubelet.double import QUICK
from dray.testing.objects import allocation, claim, consumer, device_class
from tests.node.machines import NODE, Machine, pod, shell
from tests.node.scripted_driver import scripted_driver

STUCK, GOOD = "gpu.example.com", "nic.example.com"


@pytest.fixture
def root():
    """Yields a directory with a short path, because paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="node-") as directory:
        (Path(directory) / "cdi").mkdir()
        yield Path(directory)


@pytest.fixture
async def machine(root):
    async with LocalCluster(controllers=["serviceaccount"], objects=[device_class("gpu")]) as cluster:
        machine = Machine(cluster, root, timing=replace(QUICK, call=0.5))
        await machine.start()
        yield machine
        await machine.stop()
        await machine.clean()


async def start(machine, name, driver):
    """A pod with a claim of its own name, whose device is of that driver."""
    container = {**shell("sleep 1000"), "resources": {"claims": [{"name": "device"}]}}
    claims = [{"name": "device", "resourceClaimName": name}]
    made = await machine.cluster.create(pod(name, container, resourceClaims=claims))
    stored = await machine.cluster.create(claim(name))
    allocated = allocation(f"gpu-{name}", pool=NODE, nodeName=NODE)
    allocated["devices"]["results"][0]["driver"] = driver
    status = {"allocation": allocated, "reservedFor": [consumer(made)]}
    await machine.cluster.client.update_status(kind_of("ResourceClaim"), {**stored, "status": status})
    return await machine.phase(name, "Running")


async def test_a_stuck_driver_holds_up_its_own_pods_alone(machine):
    async with scripted_driver(machine.root, name=STUCK) as stuck, scripted_driver(machine.root, name=GOOD):
        for name in ("one", "two"):
            await start(machine, name, STUCK)
        stuck.hold = asyncio.Event()
        # One of them by force: its worker goes on until the driver has let go of its device.
        await machine.cluster.delete("Pod", "one", grace=None)
        await machine.cluster.delete("Pod", "two", grace=0)
        await machine.cluster.eventually(lambda: asked(stuck, "unprepare", 3))
        await start(machine, "good", GOOD)
        await machine.cluster.delete("Pod", "good", grace=None)
        await machine.until("good", None)
        assert (await machine.cluster.get("Pod", "one"))["metadata"].get("deletionTimestamp")
        assert len(machine.agent.dra.manager.users()) == 2
        # Their processes have ended, though.
        assert not [container for container in await machine.agent.runtime.containers() if container.running]
        stuck.hold.set()
        await machine.until("one", None)
        await machine.cluster.eventually(lambda: forgotten(machine))


async def asked(driver, verb, times):
    return sum(call[1] == verb for call in driver.asked) >= times


async def forgotten(machine):
    return not machine.agent.workers() and not machine.agent.dra.manager.users()


async def test_pods_that_vanished_do_not_wait_for_each_others_drivers(machine):
    async with scripted_driver(machine.root, name=STUCK) as stuck, scripted_driver(machine.root, name=GOOD):
        await start(machine, "one", STUCK)
        await start(machine, "two", GOOD)
        await machine.stop()
        for name in ("one", "two"):
            await machine.cluster.delete("Pod", name, grace=0)
        stuck.hold = asyncio.Event()
        await machine.start()
        await machine.cluster.eventually(lambda: users_are(machine, 1))
        assert await machine.agent.runtime.containers() == []
        stuck.hold.set()
        await machine.cluster.eventually(lambda: forgotten(machine))


async def users_are(machine, count):
    return len(machine.agent.dra.manager.users()) == count
