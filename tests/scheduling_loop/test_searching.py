"""A search that an attempt gives up goes on in a process of its own, and its answer is used."""

import asyncio
import sys

from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from tests.scheduling.test_searches import CASE, published
from tests.scheduling_loop import objects

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}


def typed(document, kind, api_version):
    return {**document, "apiVersion": api_version, "kind": kind}


def hard_claim(name):
    devices = CASE.claims[0]["spec"]["devices"]
    requests = [{**each, "exactly": {**each["exactly"], "deviceClassName": "any"}} for each in devices["requests"]]
    claim = objects.claim(name, {"devices": {**devices, "requests": requests}})
    return typed(claim, "ResourceClaim", "resource.k8s.io/v1")


def world():
    node = typed(objects.node("hard"), "Node", "v1")
    return [node, typed(published("hard"), "ResourceSlice", "resource.k8s.io/v1"), CLASS]


async def placed(cluster, name):
    async def bound():
        return (await cluster.get("Pod", name))["spec"].get("nodeName")

    return await cluster.eventually(bound, within=15.0)


async def test_what_takes_long_to_find_is_found_in_a_process_of_its_own():
    async with LocalCluster(scheduler=Options(), objects=world()) as cluster:
        await cluster.create(hard_claim("hard-claim"))
        await cluster.create(typed(objects.pod("hard", claims=["hard-claim"]), "Pod", "v1"))

        async def undecided():
            conditions = (await cluster.get("Pod", "hard")).get("status", {}).get("conditions") or ()
            return [each for each in conditions if "undecided" in each.get("message", "")]

        assert await cluster.eventually(undecided)
        # Others are placed meanwhile.
        await cluster.create(typed(objects.pod("easy"), "Pod", "v1"))
        assert await placed(cluster, "easy") == "hard"
        assert await placed(cluster, "hard") == "hard"
        claim = await cluster.get("ResourceClaim", "hard-claim")
        assert len(claim["status"]["allocation"]["devices"]["results"]) == len(claim["spec"]["devices"]["requests"])


async def test_a_process_that_cannot_be_started_is_said_and_others_go_on(monkeypatch, caplog):
    async with LocalCluster(scheduler=Options(), objects=world()) as cluster:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        await cluster.create(hard_claim("hard-claim"))
        await cluster.create(typed(objects.pod("hard", claims=["hard-claim"]), "Pod", "v1"))
        while not [text for text in caplog.messages if "cannot be started" in text]:
            await asyncio.sleep(0.01)
        await cluster.create(typed(objects.pod("easy"), "Pod", "v1"))
        assert await placed(cluster, "easy") == "hard"
