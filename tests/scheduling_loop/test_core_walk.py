"""The scheduler alone, over many more ways than with a server: nobody waits in vain, no queue has too much."""

import os

import pytest

from tests.scheduling_loop.changing_walk import ChangingWalk
from tests.scheduling_loop.core_walk import CoreWalk
from tests.scheduling_loop.volume_walk import VolumeWalk

ROUNDS = int(os.environ.get("DRAY_CORE_WALK_ROUNDS", "2"))
FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))
STEPS = int(os.environ.get("DRAY_CORE_WALK_STEPS", "200"))


@pytest.mark.parametrize(
    "system", ["", "kueue", "flavors", "kai"], ids=("without queues", "with queues", "with flavors", "with KAI")
)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_core_walk(seed, system):
    walk_on(CoreWalk(seed, system))


@pytest.mark.parametrize("system", ["kueue", "flavors", "kai"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, ROUNDS // 2)))
def test_core_walk_in_which_queues_change(seed, system):
    walk_on(ChangingWalk(seed, system))


@pytest.mark.parametrize("system", ["flavors", "kai"])
@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(1, ROUNDS // 4)))
def test_core_walk_in_which_volumes_change(seed, system):
    walk_on(VolumeWalk(seed, system))


def test_a_walk_in_which_a_pod_evicted_others_without_end():
    """Before its victim, a pod of a gang, was deleted, the pod chose another pod of the gang, and the first again."""
    walk_on(CoreWalk(5, "flavors"))


def walk_on(walk):
    for number in range(STEPS):
        walk.step()
        if number % 25 == 24:
            problems = walk.rest()
            assert not problems, f"after {number + 1} steps: " + "\n".join(problems)
    assert walk.pods.events > STEPS
