"""Whatever comes and goes, whoever dies: no device twice, nothing kept for nobody, nobody waits in vain."""

import os

import pytest

from tests.scheduling_loop.walk import Walk

ROUNDS = int(os.environ.get("DRAY_WALK_ROUNDS", "3"))
STEPS = int(os.environ.get("DRAY_WALK_STEPS", "400"))
FIRST = int(os.environ.get("DRAY_WALK_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
async def test_random_walk(seed, virtual_time):
    try:
        async with Walk(seed).going() as cluster:
            for number in range(STEPS):
                await cluster.step()
                if number % 25 == 24:
                    await cluster.rest()
            # It went somewhere.
            assert cluster.kills
            assert cluster.bound
            assert cluster.checker.events > STEPS / 2
    except BaseException:
        # Sets are walked through in another order with another hash seed.
        again = f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '(not fixed)')}"
        print(f"{again} DRAY_WALK_SEED={seed} DRAY_WALK_ROUNDS=1 DRAY_WALK_STEPS={STEPS} shows it again")
        raise
