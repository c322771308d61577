"""A server in virtual time, with whatever runs against it over connections that may fail."""

import asyncio
from random import Random
from uuid import UUID

from dray.client.api import ApiClient
from dray.control_plane.control_plane import ControlPlane, Lease, PlaneOptions
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.loop import Sharing
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.checker import Checker
from tests.scheduling_loop.creation import make
from tests.scheduling_loop.faults import FaultyTransport, client_over
from tests.virtual_time import VirtualTime

PATIENCE = 20.0


class VirtualCluster:
    """A server, the claim controller, and as many schedulers as are started."""

    def __init__(self, seed=0, nodes=2, gpu_count=4, devices=None):
        self.chance = Random(seed)
        self.time = VirtualTime()
        context = Context(MemoryStore(), clock=self.time.now, new_uid=self._uid)
        self.server = ApiServer(context)
        self._application = Application(self.server)
        self.client = ApiClient(self._transport())
        self.nodes = [objects.node(f"n{n}", cpu="1000", pods="1000") for n in range(nodes)]
        self.slices = devices or [gpus.slice_of(f"n{n}", gpu_count) for n in range(nodes)]
        self.slices.append(objects.resource_slice("net", *[gpus.gpu(f"net-{n}", kind="net") for n in range(2)]))
        self.checker = Checker(self.slices)
        self._tasks = {}
        self.transports = {}
        self.planes = {}

    def _uid(self):
        return str(UUID(int=self.chance.getrandbits(128)))

    def _transport(self):
        return InProcessTransport(self._application)

    async def __aenter__(self):
        await self.server.start()
        for each in (*self.nodes, *self.slices, gpus.device_class("gpu"), gpus.device_class("net")):
            await self.create(each)
        self._tasks["checker"] = asyncio.create_task(self.checker.watch(self.client))
        self.run("controllers", PlaneOptions(None, ("resourceclaim", "garbage-collector")))
        return self

    async def __aexit__(self, *_):
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.client.close()
        await self.server.close()

    def run(self, name, options, **faults):
        self.transports[name] = FaultyTransport(self._transport(), self.chance, **faults)
        plane = ControlPlane(client_over(self.transports[name], self.chance), options, time=self.time)
        self.planes[name] = plane
        self._tasks[name] = asyncio.create_task(plane.run())

    def share(self, name, **faults):
        sharing = Sharing("kube-system", f"{name}-{self._uid()}", PATIENCE)
        self.run(name, PlaneOptions(Options(seed=self.chance.randrange(100)), (), sharing=sharing), **faults)

    def schedule(self, name="scheduler", **options):
        self.run(name, PlaneOptions(Options(**options), ()))

    def lead(self, name, **faults):
        self.run(
            name,
            PlaneOptions(Options(), (), Lease(namespace="kube-system", name="dray-scheduler", identity=name)),
            **faults,
        )

    async def kill(self, name):
        self.transports[name].cut()
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def create(self, document):
        return await make(self.client, document)

    async def pods(self):
        return (await self.client.list_all(kind_of("Pod")))["items"]

    async def bound(self):
        return [each for each in await self.pods() if each["spec"].get("nodeName")]

    async def claims(self):
        return (await self.client.list_all(kind_of("ResourceClaim")))["items"]

    async def finish(self, pod):
        body = {"status": {"phase": "Succeeded"}}
        place = {"namespace": "default", "subresource": "status"}
        await self.client.patch(kind_of("Pod"), pod["metadata"]["name"], body, **place)

    async def get(self, kind, name, namespace="default"):
        """None where there is none."""
        kind = kind_of(kind)
        found = (await self.client.list_all(kind, namespace=namespace if kind.namespaced else ""))["items"]
        return next((each for each in found if each["metadata"]["name"] == name), None)

    async def patch(self, kind, name, body, subresource=""):
        kind = kind_of(kind)
        place = "default" if kind.namespaced else ""
        return await self.client.patch(kind, name, body, namespace=place, subresource=subresource)

    async def node_of(self, name):
        return (await self.get("Pod", name))["spec"].get("nodeName")

    async def quiet(self, seconds=30):
        """Long enough for everything that is to happen to have happened."""
        await asyncio.sleep(seconds)
        for name, task in self._tasks.items():
            assert not task.done(), (name, task)
        assert not self.checker.problems

    async def until(self, holds, within=300):
        end = asyncio.get_running_loop().time() + within
        while not await holds():
            assert asyncio.get_running_loop().time() < end, "too late"
            await asyncio.sleep(0.5)
