"""Nothing starves: whatever small pods come, a gang or a large pod that could ever start does within a bounded time.

Server, scheduler and claim controller are real, writes go wrong, and the scheduler dies now and then. Pods run for a
while of their own and nobody knows how long.
"""

import asyncio
import contextlib
from math import inf
from random import Random

import pytest

from dray.client.errors import ApiError
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.cluster import VirtualCluster

NODES, GPUS = 3, 4
BOUND = 900.0
"""Seconds: the longest run, the time before a place is kept, and some for retries."""


class Traffic:
    """Small pods without end, and now and then a gang or a pod of whole nodes; all of them end after a while."""

    def __init__(self, cluster, seed, size):
        self.cluster = cluster
        self.size = size
        self.chance = Random(seed)
        self.arrived = {}
        self.waited = {}
        self.small = 0
        self._number = 0
        self._ends = {}
        """By name, when a pod ends."""

    async def flow(self, seconds):
        loop = asyncio.get_running_loop()
        end, gang = loop.time() + seconds, loop.time() + 60
        while loop.time() < end:
            pods = await self.cluster.pods()
            self._look(pods)
            await self._end(loop.time())
            waiting = sum(not each["spec"].get("nodeName") for each in pods if each["metadata"]["name"].startswith("s"))
            for _ in range(6 - waiting):
                self._number += 1
                await self._try(self.cluster.create(gpus.pod(f"s{self._number}", templates=["one"])))
            if loop.time() > gang:
                gang = loop.time() + 400
                await self._gang()
            if self.chance.random() < 0.004:
                await self.cluster.kill("scheduler")
                await asyncio.sleep(self.chance.random() * 3)
                self.start()
            await asyncio.sleep(2)

    def start(self):
        self.cluster.schedule(reservation_seconds=200)
        self.cluster.transports["scheduler"].rate = 0.05

    async def _gang(self):
        self._number += 1
        name = f"g{self._number}"
        group = {"schedulingGroup": {"podGroupName": name}} if self.size > 1 else {}
        if group:
            await self.cluster.create(objects.pod_group(name, minCount=self.size))
        for n in range(self.size):
            await self.cluster.create(gpus.pod(f"{name}-{n}", templates=["all"], **group))
        self.arrived[name] = asyncio.get_running_loop().time()

    def _look(self, pods):
        now = asyncio.get_running_loop().time()
        bound = {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}
        for name, since in self.arrived.items():
            if name not in self.waited and {f"{name}-{n}" for n in range(self.size)} <= bound:
                self.waited[name] = now - since
        for name in sorted(bound - self._ends.keys()):
            self.small += name.startswith("s")
            self._ends[name] = now + 20 + self.chance.random() * 100

    async def _end(self, now):
        for name in [each for each, end in self._ends.items() if end <= now]:
            self._ends[name] = inf
            await self._try(self.cluster.client.delete(kind_of("Pod"), name, namespace="default"))

    async def _try(self, doing):
        with contextlib.suppress(ApiError):
            await doing


@pytest.mark.parametrize(("seed", "size"), [(0, 2), (1, 1)])
async def test_nobody_starves(seed, size, virtual_time):
    async with VirtualCluster(seed, nodes=NODES, gpu_count=GPUS) as cluster:
        for name, number in (("one", 1), ("all", GPUS)):
            await cluster.create(objects.claim_template(name, objects.request(count=number)))
        traffic = Traffic(cluster, seed, size)
        traffic.start()
        await traffic.flow(4000)
        now = asyncio.get_running_loop().time()
        late = {name: now - since for name, since in traffic.arrived.items() if name not in traffic.waited}
        assert max([*traffic.waited.values(), *late.values()]) < BOUND, (traffic.waited, late)
        assert len(traffic.waited) >= 7
        # The others went on meanwhile.
        assert traffic.small > 100
        assert not cluster.checker.problems
