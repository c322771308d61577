"""A search that an attempt gives up goes on in a process of its own, and its answer is used."""

import asyncio
import sys

from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_searches import hard_claim, published


def hard_cluster():
    return [objects.node("hard"), published("hard"), objects.device_class("any")]


async def placed(cluster, name):
    async def bound():
        return (await cluster.get("Pod", name))["spec"].get("nodeName")

    return await cluster.eventually(bound, within=15.0)


async def test_what_takes_long_to_find_is_found_in_a_process_of_its_own():
    async with LocalCluster(scheduler=Options(), objects=hard_cluster()) as cluster:
        await cluster.create(hard_claim("hard-claim"))
        await cluster.create(gpus.pod("hard", claims=["hard-claim"]))

        async def undecided():
            conditions = (await cluster.get("Pod", "hard")).get("status", {}).get("conditions") or ()
            return [each for each in conditions if "undecided" in each.get("message", "")]

        assert await cluster.eventually(undecided)
        # Others are placed meanwhile.
        await cluster.create(gpus.pod("easy"))
        assert await placed(cluster, "easy") == "hard"
        assert await placed(cluster, "hard") == "hard"
        claim = await cluster.get("ResourceClaim", "hard-claim")
        assert len(claim["status"]["allocation"]["devices"]["results"]) == len(claim["spec"]["devices"]["requests"])


async def test_a_process_that_cannot_be_started_is_said_and_others_go_on(monkeypatch, caplog):
    async with LocalCluster(scheduler=Options(), objects=hard_cluster()) as cluster:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        await cluster.create(hard_claim("hard-claim"))
        await cluster.create(gpus.pod("hard", claims=["hard-claim"]))
        while not [text for text in caplog.messages if "cannot be started" in text]:
            await asyncio.sleep(0.01)
        await cluster.create(gpus.pod("easy"))
        assert await placed(cluster, "easy") == "hard"
