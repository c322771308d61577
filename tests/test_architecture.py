"""docs/architecture.md names the functions that a claim passes: each exists, and they are passed in that order."""

import asyncio
import re
import sys
from importlib import import_module
from pathlib import Path

from dray.controllers.registry import CONTROLLERS
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster

SECTION = (Path(__file__).parents[1] / "docs/architecture.md").read_text().partition("## The way of one claim")[2]
SECTION = SECTION.partition("\n## ")[0]
PASSED = re.findall(r"^\d+\. `([\w.]+)`$", SECTION, re.MULTILINE)
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
    assert re.findall(r"^(\d+)\. ", SECTION, re.MULTILINE) == [str(number + 1) for number in range(len(PASSED))]


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
