"""Whatever comes and goes, whoever dies: no device twice, nothing kept for nobody, nobody waits in vain."""

import contextlib
import os

import pytest

from tests.scheduling_loop.queued_walk import QueuedWalk
from tests.scheduling_loop.walk import Walk

ROUNDS = int(os.environ.get("DRAY_WALK_ROUNDS", "2"))
STEPS = int(os.environ.get("DRAY_WALK_STEPS", "400"))
FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
async def test_random_walk(seed, virtual_time):
    async with walking(Walk(seed), seed, STEPS):
        pass


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, ROUNDS // 2)))
async def test_random_walk_with_queues(seed, virtual_time):
    """No queue above its limit at any time, and no gang in parts for longer than it takes to write it."""
    walk = QueuedWalk(seed)
    async with walking(walk, seed, STEPS, walk.contend):
        assert walk.pods.events > STEPS


@contextlib.asynccontextmanager
async def walking(walk, seed, steps, begin=None):
    try:
        async with walk.going() as cluster:
            if begin is not None:
                await begin()
            for number in range(steps):
                await cluster.step()
                if number % 25 == 24:
                    await cluster.rest()
            # It went somewhere.
            assert cluster.kills
            assert cluster.bound
            assert cluster.checker.events > steps / 2
            yield
    except BaseException:
        # Sets are walked through in another order with another hash seed.
        again = f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '(not fixed)')}"
        print(f"{again} DRAY_WALK_SEED={seed} DRAY_WALK_ROUNDS=1 DRAY_WALK_STEPS={steps} shows it again")
        raise
