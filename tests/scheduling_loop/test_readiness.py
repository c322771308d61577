"""Devices that must get ready before their pod is bound."""

import asyncio

import pytest

from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.cluster import VirtualCluster
from tests.scheduling_loop.readers import condition, events


def conditional_slice():
    device = gpus.gpu("slow", bindingConditions=["ready"], bindingFailureConditions=["broken"], bindsToNode=True)
    return objects.resource_slice("slow", device, nodeName="n0")


async def report(cluster, claim, kind):
    status = {
        "driver": objects.DRIVER,
        "pool": "slow",
        "device": "slow",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "Because",
                "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }
        ],
    }
    await cluster.patch("ResourceClaim", claim, {"status": {"devices": [status]}}, "status")


@pytest.fixture
async def slow_device(virtual_time):
    """A cluster with one device that is not ready yet, and a pod that waits for it."""
    async with VirtualCluster(nodes=1, devices=[conditional_slice()]) as cluster:
        cluster.schedule()
        await cluster.create(objects.claim("c"))
        await cluster.create(gpus.pod("p", claims=["c"]))
        await asyncio.sleep(5)
        yield cluster


async def test_a_pod_is_bound_when_its_devices_are_ready(slow_device):
    assert not await slow_device.node_of("p")
    assert gpus.held(await slow_device.get("ResourceClaim", "c")) == ["slow"]
    assert len(await events(slow_device, "BindingConditionsPending")) == 1
    await report(slow_device, "c", "ready")
    await slow_device.quiet()
    assert await slow_device.node_of("p") == "n0"


async def test_devices_that_fail_to_get_ready_are_tried_anew(slow_device):
    first = (await slow_device.get("ResourceClaim", "c"))["metadata"]["resourceVersion"]
    await report(slow_device, "c", "broken")
    await slow_device.quiet()
    claim = await slow_device.get("ResourceClaim", "c")
    assert int(claim["metadata"]["resourceVersion"]) > int(first)
    assert not (claim.get("status") or {}).get("devices")
    assert gpus.held(claim) == ["slow"]
    await report(slow_device, "c", "ready")
    await slow_device.quiet()
    assert await slow_device.node_of("p") == "n0"


async def test_a_pod_says_that_its_devices_failed_to_get_ready(slow_device):
    await report(slow_device, "c", "broken")
    await slow_device.quiet()
    said = {each["message"] for each in await events(slow_device, "FailedScheduling")}
    assert 'device binding failed: claim=c, reason=Because, message=""' in said
    found = condition(await slow_device.get("Pod", "p"))
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"].endswith("deallocation of ResourceClaim completed")


async def test_devices_that_failed_for_one_pod_are_let_go_when_the_other_has_failed_too(slow_device):
    await slow_device.create(gpus.pod("q", claims=["c"]))
    await asyncio.sleep(5)
    await report(slow_device, "c", "broken")
    await slow_device.quiet()
    claim = await slow_device.get("ResourceClaim", "c")
    assert not (claim.get("status") or {}).get("devices")
    assert {each["name"] for each in claim["status"]["reservedFor"]} == {"p", "q"}
    await report(slow_device, "c", "ready")
    await slow_device.quiet()
    assert [await slow_device.node_of(name) for name in ("p", "q")] == ["n0", "n0"]


async def test_devices_that_do_not_get_ready_in_time_are_tried_anew(slow_device):
    began = (await slow_device.get("ResourceClaim", "c"))["status"]["allocation"]["allocationTimestamp"]
    await slow_device.quiet(700)
    again = (await slow_device.get("ResourceClaim", "c"))["status"]["allocation"]["allocationTimestamp"]
    assert again > began
    assert not await slow_device.node_of("p")


async def test_a_pod_that_goes_while_its_devices_get_ready_leaves_nothing(slow_device):
    await slow_device.client.delete(kind_of("Pod"), "p", namespace="default")
    await slow_device.quiet(60)
    claim = await slow_device.get("ResourceClaim", "c")
    assert not (claim.get("status") or {}).get("allocation")
