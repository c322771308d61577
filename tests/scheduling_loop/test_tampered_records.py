"""Records of pools that somebody else has changed: the scheduler goes on, says so, and writes them anew."""

import asyncio
import json
import logging

import pytest

from dray.scheduling_loop.pool_intents import LABEL, record_name
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests.scheduling_loop.cluster import PATIENCE, VirtualCluster
from tests.scheduling_loop.test_two_schedulers import gpu_pods

POOL = ("gpu.example.com", "n0")
MAPS = kind_of("ConfigMap")
DEVICE = {"request": "gpu", "driver": POOL[0], "pool": POOL[1], "device": "gpu-0"}


def intent(**changes):
    found = {
        "id": "x/1",
        "writer": "x",
        "uid": "nobody",
        "namespace": "default",
        "name": "nothing",
        "base": "1",
        "results": [DEVICE],
    }
    return {**found, **changes}


def intents(*found):
    return {"intents": json.dumps(found)}


TAMPERED = {
    "no JSON": {"intents": "{"},
    "another type": {"intents": json.dumps({"a": 1})},
    "deep": {"intents": "[" * 100_000},
    "numbers": intents(1, 2, 3),
    "a base that is no version": intents(intent(base="soon")),
    "a base of many digits": intents(intent(base="9" * 5000)),
    "devices of others": intents(intent(results=[{**DEVICE, "pool": "n1"}])),
    "devices without names": intents(intent(results=[{}])),
    "capacity that is none": intents(
        intent(results=[{**DEVICE, "shareID": "s", "consumedCapacity": {"memory": "much"}}])
    ),
    "seen that is no number": {"seen": "yesterday"},
    "seen of many digits": {"seen": "9" * 5000},
    "seen in the future": {"seen": "9" * 18},
    "another pool": {"driver": "other.example.com", "pool": "elsewhere"},
    "an intent for a claim that does not exist": intents(intent()),
    "many intents": intents(*(intent(id=f"x/{n}", uid=str(n)) for n in range(500))),
    "nothing": {"intents": "", "seen": "", "driver": "", "pool": "", "written": ""},
}


async def tamper(world, content):
    name = record_name(POOL)
    document = {"metadata": {"labels": {LABEL: "devices"}}, "data": content}
    await world.client.patch(MAPS, name, document, namespace="kube-system")


async def all_bound(world, number):
    return len(await world.bound()) == number


@pytest.mark.parametrize("content", TAMPERED.values(), ids=TAMPERED)
async def test_a_scheduler_survives_a_record_that_somebody_changed(content, virtual_time, caplog):
    caplog.set_level(logging.WARNING)
    async with VirtualCluster(1, nodes=1, gpu_count=4) as world:
        await world.create(objects.claim_template("gpu"))
        world.share("one")
        for pod in gpu_pods(2):
            await world.create(pod)
        await world.until(lambda: all_bound(world, 2))
        await tamper(world, content)
        await asyncio.sleep(1)
        for pod in gpu_pods(2, first=2):
            await world.create(pod)
        # Devices of a pool whose record is in doubt are not given away before every writer has come to an end.
        await world.until(lambda: all_bound(world, 4), within=5 * PATIENCE + 60)
        assert not world.checker.problems
        await world.quiet(1)
        # Another one that starts can read what there is now.
        world.share("other")
        await world.quiet(2)
    assert "Traceback" not in caplog.text


async def test_an_intent_for_a_version_that_there_has_not_been_yet_does_not_keep_its_device_for_ever(virtual_time):
    async with VirtualCluster(1, nodes=1, gpu_count=2) as world:
        await world.create(objects.claim_template("gpu"))
        world.share("one")
        await world.create(gpu_pods(1)[0])
        await world.until(lambda: all_bound(world, 1))
        (claim,) = await world.claims()
        metadata = claim["metadata"]
        far = intent(uid=metadata["uid"], name=metadata["name"], base="9" * 17, results=[{**DEVICE, "device": "gpu-1"}])
        await tamper(world, intents(far))
        await asyncio.sleep(1)
        await world.create(gpu_pods(1, first=1)[0])
        await world.until(lambda: all_bound(world, 2), within=5 * PATIENCE + 60)
        assert not world.checker.problems


async def test_a_map_in_place_of_a_record_that_was_there_before_is_replaced(virtual_time, caplog):
    caplog.set_level(logging.WARNING)
    async with VirtualCluster(1, nodes=1, gpu_count=1) as world:
        await world.create(objects.claim_template("gpu"))
        squatter = objects.config_map(record_name(POOL), {"note": "this is mine"})
        squatter["metadata"].update(namespace="kube-system", labels={LABEL: "devices"})
        await world.client.create(MAPS, squatter)
        world.share("one")
        await world.create(gpu_pods(1)[0])
        await world.until(lambda: all_bound(world, 1), within=5 * PATIENCE + 60)
        assert not world.checker.problems
        record = await world.client.get(MAPS, record_name(POOL), namespace="kube-system")
        assert (record["data"]["driver"], record["data"]["pool"]) == POOL
    assert "it is not the record of a pool" in caplog.text
