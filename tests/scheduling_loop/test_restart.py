"""Who waits longest is first, also after a restart, when pods and groups are seen in the order of their names."""

import asyncio

import pytest

from dray.client.foreign_kinds import KUEUE, definitions
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling.test_queues import cluster_queue, flavor, in_queue, local_queue, nominal
from tests.scheduling_loop.cluster import VirtualCluster


@pytest.fixture
async def world(virtual_time):
    """A node of six cores, and a pod that has them until the restart."""
    async with VirtualCluster() as cluster:
        cluster.schedule()
        await cluster.create(objects.node("small", cpu="6", labels={"size": "small"}))
        await create(cluster, waiting("running", "6"))
        yield cluster


def waiting(name, cpu="1", **more):
    return gpus.pod(name, cpu=cpu, nodeSelector={"size": "small"}, **more)


async def create(world, *documents):
    """One after the other, each in a second of its own."""
    for each in documents:
        await world.create(each)
        await asyncio.sleep(2)


async def create_gang(world, name, size=4):
    group = {"podGroupName": name}
    await create(world, objects.pod_group(name, minCount=size))
    await create(world, *(waiting(f"{name}-{number}", schedulingGroup=group) for number in range(size)))


async def restart(world):
    """Room becomes free meanwhile. Gives who gets it."""
    await world.kill("scheduler")
    await world.client.delete(kind_of("Pod"), "running", namespace="default")
    world.schedule()
    await world.quiet()
    return sorted(each["metadata"]["name"] for each in await world.bound())


async def test_the_oldest_pod_is_first(world):
    await create(world, waiting("z", "4"), waiting("a", "4"), waiting("m", "2"))
    assert await restart(world) == ["m", "z"]


async def test_the_oldest_gang_is_first(world):
    await create_gang(world, "z")
    await create_gang(world, "a")
    assert await restart(world) == [f"z-{number}" for number in range(4)]


@pytest.mark.parametrize("is_older", [True, False])
async def test_gangs_and_pods_go_by_their_age(world, is_older):
    if is_older:
        await create(world, waiting("single", "4"))
    await create_gang(world, "a")
    if not is_older:
        await create(world, waiting("single", "4"))
    assert await restart(world) == (["single"] if is_older else [f"a-{number}" for number in range(4)])


async def test_a_gang_is_as_old_as_its_first_pod(world):
    await create(world, objects.pod_group("a", minCount=4))
    await create_gang(world, "z")
    group = {"podGroupName": "a"}
    await create(world, *(waiting(f"a-{number}", schedulingGroup=group) for number in range(4)))
    assert await restart(world) == [f"z-{number}" for number in range(4)]


async def test_the_oldest_of_a_strict_queue_holds_up_the_others(world):
    await create(world, *definitions())
    strict = cluster_queue("team", ("any", {"cpu": nominal(4)}), queueingStrategy="StrictFIFO")
    for each in (flavor(), strict, local_queue("team", "team")):
        resource = KUEUE[each["kind"]]
        body = {"apiVersion": resource.api_version, **each}
        await world.client.create(resource, body, namespace=each["metadata"].get("namespace", ""))
    await create(world, in_queue(waiting("z", "5")), in_queue(waiting("a", "2")))
    assert await restart(world) == []
