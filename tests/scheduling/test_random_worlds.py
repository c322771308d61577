"""Jobs come and end in many small worlds with queues and gangs: nothing is given twice, nobody waits in vain."""

import os

import pytest

from tests.scheduling.random_worlds import SYSTEMS, World

FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))
WORLDS = int(os.environ.get("DRAY_WORLDS", "12"))
STEPS = int(os.environ.get("DRAY_WORLD_STEPS", "16"))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_random_world(seed, system):
    world = World(seed, system)
    for number in range(STEPS):
        world.step()
        assert not world.problems, f"after {number + 1} jobs: " + "\n".join(world.problems[:8])
    assert world.number > 3
