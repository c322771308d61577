"""Jobs come and end in many small worlds with queues and gangs: nothing is given twice, nobody waits in vain."""

import os

import pytest

from tests.scheduling.changing_worlds import ChangingWorld
from tests.scheduling.random_worlds import SYSTEMS, GracefulWorld, World
from tests.scheduling.varied_worlds import VariedWorld

FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))
WORLDS = int(os.environ.get("DRAY_WORLDS", "12"))
STEPS = int(os.environ.get("DRAY_WORLD_STEPS", "16"))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + WORLDS))
def test_random_world(seed, system):
    go_through(World(seed, system))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, WORLDS // 3)))
def test_random_world_in_which_evicted_pods_take_their_time(seed, system):
    go_through(GracefulWorld(seed, system))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, WORLDS // 3)))
def test_random_world_in_which_queues_nodes_and_groups_change(seed, system):
    go_through(ChangingWorld(seed, system))


@pytest.mark.parametrize("system", ["kueue", "kai"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, WORLDS // 3)))
def test_random_world_in_which_pods_of_a_queue_are_unlike(seed, system):
    go_through(VariedWorld(seed, system))


def go_through(world):
    for number in range(STEPS):
        world.step()
        assert not world.problems, f"after {number + 1} jobs: " + "\n".join(world.problems[:8])
    assert world.number > 3
