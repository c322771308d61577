"""The scheduler's loop and errors that nobody expected: the object that caused one is told, the others go on."""

import asyncio
import logging

from dray.scheduling.plugin import SKIP, Plugin
from dray.testing import objects
from tests import gpus
from tests.scheduling_loop.readers import condition, events

FAULTS = "dray_scheduler_plugin_faults_total"


class Failing(Plugin):
    """Raises in every attempt for a pod named bad."""

    def prefilter(self, cycle):
        if cycle.pod.key[1] == "bad":
            raise ZeroDivisionError("one of a kind")
        return SKIP


async def fail_on_bad(virtual_cluster):
    await virtual_cluster.kill("scheduler")
    virtual_cluster.schedule(plugins=(Failing(),))
    await asyncio.sleep(1)


async def test_a_pod_that_the_scheduler_fails_on_says_so_and_the_next_one_is_bound(virtual_cluster):
    await fail_on_bad(virtual_cluster)
    await virtual_cluster.create(gpus.pod("bad"))
    await virtual_cluster.create(gpus.pod("good"))
    await virtual_cluster.quiet()
    said = condition(await virtual_cluster.get("Pod", "bad"))
    assert (said["status"], said["reason"]) == ("False", "SchedulerError")
    assert "ZeroDivisionError: one of a kind" in said["message"]
    assert [each["involvedObject"]["name"] for each in await events(virtual_cluster, "FailedScheduling")] == ["bad"]
    assert (await virtual_cluster.get("Pod", "good"))["spec"]["nodeName"]


async def test_what_cannot_be_taken_in_gets_an_event_and_is_left_out(virtual_cluster):
    odd = objects.resource_slice("odd", gpus.gpu("g"))
    del odd["spec"]["allNodes"]
    expression = {"key": "num", "operator": "Gt", "values": ["abc"]}
    odd["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    await virtual_cluster.create(odd)
    await virtual_cluster.create(objects.claim("c"))
    await virtual_cluster.create(gpus.pod("p", claims=["c"]))
    await virtual_cluster.quiet()
    assert (await virtual_cluster.get("Pod", "p"))["spec"]["nodeName"]
    (event,) = await events(virtual_cluster, "SchedulerError")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ResourceSlice", "odd")
    assert "Gt needs exactly one whole number" in event["message"]


async def test_each_cause_is_logged_with_its_trace_once_and_counted_each_time(virtual_cluster):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("dray.scheduler").addHandler(handler)
    try:
        await fail_on_bad(virtual_cluster)
        await virtual_cluster.create(gpus.pod("bad"))
        await virtual_cluster.quiet()
        await asyncio.sleep(60)
    finally:
        logging.getLogger("dray.scheduler").removeHandler(handler)
    # That it fails, that it is switched off, and how often it failed.
    warnings = [each for each in records if each.levelno >= logging.WARNING]
    assert len(warnings) == 3
    assert len([each for each in warnings if each.exc_info]) == 1
    families = [each for registry in virtual_cluster.planes["scheduler"].metrics() for each in registry.collect()]
    faults = [sample.value for each in families for sample in each.samples if sample.name == FAULTS]
    assert sum(faults) > 5
