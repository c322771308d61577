"""Devices that must get ready before their pod is bound."""

import asyncio

from dray.testing.cluster import kind_of
from tests.scheduling_loop import objects
from tests.scheduling_loop.cluster import World
from tests.scheduling_loop.virtual_time import run
from tests.scheduling_loop.worlds import condition, events


def conditional_slice():
    device = objects.gpu("slow", bindingConditions=["ready"], bindingFailureConditions=["broken"], bindsToNode=True)
    return objects.resource_slice("slow", [device], node="n0")


async def report(world, claim, kind):
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
    await world.patch("ResourceClaim", claim, {"status": {"devices": [status]}}, "status")


def with_slow_device(test):
    def wrapped():
        async def scenario():
            async with World(nodes=1, devices=[conditional_slice()]) as world:
                world.schedule()
                await world.create(objects.claim("c"))
                await world.create(objects.pod("p", claims=["c"]))
                await asyncio.sleep(5)
                await test(world)

        run(scenario())

    wrapped.__name__ = test.__name__
    return wrapped


@with_slow_device
async def test_a_pod_is_bound_when_its_devices_are_ready(world):
    assert not await world.node_of("p")
    assert objects.held(await world.get("ResourceClaim", "c")) == ["slow"]
    assert len(await events(world, "BindingConditionsPending")) == 1
    await report(world, "c", "ready")
    await world.quiet()
    assert await world.node_of("p") == "n0"


@with_slow_device
async def test_devices_that_fail_to_get_ready_are_tried_anew(world):
    first = (await world.get("ResourceClaim", "c"))["metadata"]["resourceVersion"]
    await report(world, "c", "broken")
    await world.quiet()
    claim = await world.get("ResourceClaim", "c")
    assert int(claim["metadata"]["resourceVersion"]) > int(first)
    assert not (claim.get("status") or {}).get("devices")
    assert objects.held(claim) == ["slow"]
    await report(world, "c", "ready")
    await world.quiet()
    assert await world.node_of("p") == "n0"


@with_slow_device
async def test_a_pod_says_that_its_devices_failed_to_get_ready(world):
    await report(world, "c", "broken")
    await world.quiet()
    said = {each["message"] for each in await events(world, "FailedScheduling")}
    assert 'device binding failed: claim=c, reason=Because, message=""' in said
    found = condition(await world.get("Pod", "p"))
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"].endswith("deallocation of ResourceClaim completed")


@with_slow_device
async def test_devices_that_failed_for_one_pod_are_let_go_when_the_other_has_failed_too(world):
    await world.create(objects.pod("q", claims=["c"]))
    await asyncio.sleep(5)
    await report(world, "c", "broken")
    await world.quiet()
    claim = await world.get("ResourceClaim", "c")
    assert not (claim.get("status") or {}).get("devices")
    assert {each["name"] for each in claim["status"]["reservedFor"]} == {"p", "q"}
    await report(world, "c", "ready")
    await world.quiet()
    assert [await world.node_of(name) for name in ("p", "q")] == ["n0", "n0"]


@with_slow_device
async def test_devices_that_do_not_get_ready_in_time_are_tried_anew(world):
    began = (await world.get("ResourceClaim", "c"))["status"]["allocation"]["allocationTimestamp"]
    await world.quiet(700)
    again = (await world.get("ResourceClaim", "c"))["status"]["allocation"]["allocationTimestamp"]
    assert again > began
    assert not await world.node_of("p")


@with_slow_device
async def test_a_pod_that_goes_while_its_devices_get_ready_leaves_nothing(world):
    await world.client.delete(kind_of("Pod"), "p", namespace="default")
    await world.quiet(60)
    claim = await world.get("ResourceClaim", "c")
    assert not (claim.get("status") or {}).get("allocation")
