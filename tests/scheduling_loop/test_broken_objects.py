"""The scheduler's loop and errors that nobody expected: the object that caused one is told, the others go on."""

import asyncio
import logging

from tests.scheduling_loop import objects
from tests.scheduling_loop.worlds import condition, events, in_world


def fail_on(world, name):
    """Makes every attempt for the pod of that name raise something."""
    scheduler = world.planes["scheduler"].loop.scheduler
    attempt = scheduler._attempt

    def fail(waiting, now):
        if waiting.pod.key[1] == name:
            raise ZeroDivisionError("one of a kind")
        return attempt(waiting, now)

    scheduler._attempt = fail


@in_world
async def test_a_pod_that_the_scheduler_fails_on_says_so_and_the_next_one_is_bound(world):
    fail_on(world, "bad")
    await world.create(objects.pod("bad"))
    await world.create(objects.pod("good"))
    await world.quiet()
    said = condition(await world.get("Pod", "bad"))
    assert (said["status"], said["reason"]) == ("False", "SchedulerError")
    assert "ZeroDivisionError: one of a kind" in said["message"]
    assert [each["involvedObject"]["name"] for each in await events(world, "FailedScheduling")] == ["bad"]
    assert (await world.get("Pod", "good"))["spec"]["nodeName"]


@in_world
async def test_what_cannot_be_taken_in_gets_an_event_and_is_left_out(world):
    scheduler = world.planes["scheduler"].loop.scheduler
    put = scheduler.state.put_slice

    def fail(document):
        if document["metadata"]["name"] == "odd":
            raise KeyError("nobody thought of that")
        put(document)

    scheduler.state.put_slice = fail
    await world.create(objects.resource_slice("odd", [objects.gpu("g")]))
    await world.create(objects.claim("c"))
    await world.create(objects.pod("p", claims=["c"]))
    await world.quiet()
    assert (await world.get("Pod", "p"))["spec"]["nodeName"]
    (event,) = await events(world, "SchedulerError")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ResourceSlice", "odd")
    assert "leaves it out of account: KeyError" in event["message"]


@in_world
async def test_a_slice_whose_nodes_cannot_be_told_stops_nobody_else(world):
    odd = objects.resource_slice("odd", [objects.gpu("g")])
    del odd["spec"]["allNodes"]
    expression = {"key": "num", "operator": "Gt", "values": ["abc"]}
    odd["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    await world.create(odd)
    await world.create(objects.claim("c"))
    await world.create(objects.pod("p", claims=["c"]))
    await world.quiet()
    assert (await world.get("Pod", "p"))["spec"]["nodeName"]
    (event,) = await events(world, "SchedulerError")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ResourceSlice", "odd")
    assert "Gt needs exactly one whole number" in event["message"]


@in_world
async def test_each_cause_is_logged_with_its_trace_once_and_counted_each_time(world):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("dray.scheduler").addHandler(handler)
    try:
        fail_on(world, "bad")
        await world.create(objects.pod("bad"))
        await world.quiet()
        await asyncio.sleep(60)
    finally:
        logging.getLogger("dray.scheduler").removeHandler(handler)
    assert len([each for each in records if each.levelno >= logging.WARNING]) == 1
    assert records[0].exc_info
    loop = world.planes["scheduler"].loop
    assert loop.metrics.faults._value.get() > 5
