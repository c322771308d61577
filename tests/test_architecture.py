"""docs/architecture.md names the functions that a claim and a gang pass: each exists, and that is their order."""

import asyncio
import re
import sys
from importlib import import_module
from pathlib import Path

from dray.controllers.registry import CONTROLLERS
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.core import Core, bound, victims
from tests.scheduling.test_group_attempts import gang, member
from tests.scheduling.test_queues import GPU, cluster_queue, flavor, in_queue, local_queue, nominal, queued

PAGE = (Path(__file__).parents[1] / "docs/architecture.md").read_text()


def section(title):
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def functions(text):
    return re.findall(r"^\d+\. `([\w.]+)`$", text, re.MULTILINE)


SECTION = section("The way of one claim")
PASSED = functions(SECTION)
GANG = functions(section("The way of a gang in a queue"))
NAMED = re.findall(r"`((?:node|driver)\.[\w.]+)`", SECTION)


def found(name):
    """The code of a function, by the module that is the longest part of its name."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            place = import_module(".".join(["dray", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            place = getattr(place, part)
        return place.__code__
    raise AssertionError(name)


def test_each_function_exists_and_the_steps_are_numbered():
    assert len(PASSED) > 40
    assert len(NAMED) == 3
    for name in (*PASSED, *NAMED):
        assert found(name)
    for title, passed in (("The way of one claim", PASSED), ("The way of a gang in a queue", GANG)):
        numbers = re.findall(r"^(\d+)\. ", section(title), re.MULTILINE)
        assert numbers == [str(number + 1) for number in range(len(passed))]


def test_a_gang_in_a_queue_passes_them_in_this_order():
    names = {found(name): name for name in GANG}
    order = []

    def note(frame, event, _):
        if event == "call" and (name := names.get(frame.f_code)) is not None and name not in order:
            order.append(name)

    core = Core(objects.node("n", cpu="64"), gpus.slice_of("n", 4), flavor())
    core.put(local_queue("team", "team"), local_queue("other", "other"))
    reclaiming = {"reclaimWithinCohort": "Any"}
    core.put(cluster_queue("team", ("any", {GPU: nominal(4)}), cohort="org", preemption=reclaiming))
    core.put(cluster_queue("other", ("any", {GPU: nominal(0)}), cohort="org"))
    for name in "xyz":
        core.put(objects.claim(f"c-{name}"), queued(name, "other", claims=[f"c-{name}"]))
    core.settle()
    sys.setprofile(note)
    try:
        core.put(gang("g", 2))
        for name in ("g0", "g1"):
            core.put(objects.claim(f"c-{name}"), in_queue(member(name, claims=[f"c-{name}"])))
        actions = core.settle()
    finally:
        sys.setprofile(None)
    assert (victims(actions), sorted(bound(actions))) == (["x"], ["g0", "g1"])
    assert order == GANG


async def test_a_claim_passes_them_in_this_order():
    names = {found(name): name for name in PASSED}
    order = []

    def note(frame, event, _):
        if event == "call" and (name := names.get(frame.f_code)) is not None and name not in order:
            order.append(name)

    prepared = [
        objects.node("n"),
        objects.resource_slice("n", "gpu-0", nodeName="n"),
        objects.device_class("gpu", 'device.driver == "gpu.example.com"'),
        objects.claim_template("t", objects.request(deviceClassName="gpu")),
    ]
    async with LocalCluster(scheduler=Options(), controllers=CONTROLLERS, objects=prepared) as cluster:
        await cluster.plane.ready.wait()

        async def is_bound():
            return (await cluster.get("Pod", "p"))["spec"].get("nodeName")

        async def is_released():
            return not await cluster.list("ResourceClaim")

        # What is there is taken in before anything is noted, and what controllers do at the start is done.
        store, before = cluster.server.context.store, -1
        while before != store.revision or not cluster.plane.loop.scheduler.state.size:
            before = store.revision
            await asyncio.sleep(0.1)
        sys.setprofile(note)
        try:
            await cluster.create(objects.pod("p", templates=["t"]))
            await cluster.eventually(is_bound)
            await cluster.delete("Pod", "p")
            await cluster.eventually(is_released)
            while len(order) < len(PASSED) and cluster.plane.loop.scheduler.state.inventory.usage.claims:
                await asyncio.sleep(0.01)
        finally:
            sys.setprofile(None)
    assert order == PASSED
