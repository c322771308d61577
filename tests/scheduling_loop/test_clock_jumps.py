"""The clock is set while the scheduler runs: pods are tried as soon as they would have been, and queues count on."""

import asyncio
from datetime import timedelta

import pytest

from dray.client.errors import ApiError
from dray.control_plane.control_plane import PlaneOptions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from tests import gpus
from tests.scheduling_loop.cluster import VirtualCluster

DAY = 24 * 3600.0


class JumpingTime:
    """The time of day of a machine whose clock is set now and then."""

    def __init__(self, inner):
        self._inner = inner
        self.offset = 0.0

    def now(self):
        return self._inner.now() + timedelta(seconds=self.offset)


@pytest.mark.parametrize("jump", [-400 * DAY, -3600.0, 3600.0, 400 * DAY])
async def test_a_pod_whose_binding_failed_is_tried_again_soon_although_the_clock_is_set(jump, virtual_time):
    async with VirtualCluster(1, nodes=1, gpu_count=2) as world:
        await world.create(objects.claim_template("gpu"))
        world.time = clock = JumpingTime(world.time)
        world.run("scheduler", PlaneOptions(Options(), ()))
        transport = world.transports["scheduler"]
        send, failing = transport._inner.send, True

        async def refusing(request):
            if failing and request.path.endswith("/binding"):
                raise ApiError(500, "InternalError", "not now")
            return await send(request)

        transport._inner.send = refusing
        await world.create(gpus.pod("p", templates=["gpu"]))
        await asyncio.sleep(120)
        clock.offset = jump
        failing = False
        began = asyncio.get_running_loop().time()

        async def is_bound():
            return bool(await world.bound())

        await world.until(is_bound, within=600)
        assert asyncio.get_running_loop().time() - began < 60
        await world.create(gpus.pod("q", templates=["gpu"]))

        async def both():
            return len(await world.bound()) == 2

        await world.until(both, within=60)
        assert not world.checker.problems


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
async def test_a_pod_that_waits_for_a_device_gets_it_although_the_clock_is_set(jump, virtual_time):
    async with VirtualCluster(1, nodes=1, gpu_count=1) as world:
        await world.create(objects.claim_template("gpu"))
        world.time = clock = JumpingTime(world.time)
        world.run("scheduler", PlaneOptions(Options(), ()))
        await world.create(gpus.pod("p", templates=["gpu"]))

        async def first():
            return await world.bound()

        await world.until(first)
        for name in ("q", "r"):
            await world.create(gpus.pod(name, templates=["gpu"]))
        await asyncio.sleep(30)
        clock.offset = jump
        await world.finish((await world.bound())[0])

        async def second():
            return len(await world.bound()) == 2

        await world.until(second, within=60)
        assert not world.checker.problems
