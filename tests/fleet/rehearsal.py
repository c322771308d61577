"""A cluster rehearsed in virtual time: server, scheduler and controllers are real, nodes and pods are simulated."""

import asyncio
import contextlib
from random import Random
from uuid import UUID

from dray.allocation import POLICIES
from dray.client.api import ApiClient
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.controllers.registry import CONTROLLERS
from dray.fleet.choice import choose
from dray.fleet.simulation import Simulation
from dray.scheduling.scheduler import Options
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore
from dray.testing.cluster import in_place, kind_of
from tests.virtual_time import VirtualTime

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Rehearsal:
    """`choices` is a fleet as a command line names it."""

    def __init__(self, *choices, seed=1, controllers=tuple(CONTROLLERS), policy="kubernetes"):
        self.random = Random(seed)
        self._chance = Random(seed + 1)
        self.time = VirtualTime()
        context = Context(MemoryStore(), clock=self.time.now, new_uid=self._uid, new_suffix=self._suffix)
        self.server = ApiServer(context)
        self._application = Application(self.server)
        self.client = ApiClient(InProcessTransport(self._application))
        self.chosen = choose(choices, seed=seed)
        self.plane = ControlPlane(
            self.client, PlaneOptions(Options(policy=POLICIES[policy]), controllers), time=self.time
        )
        self.simulation = None
        self._tasks = {}

    def _uid(self):
        return str(UUID(int=self._chance.getrandbits(128)))

    def _suffix(self):
        return "".join(self._chance.choices(_LETTERS, k=5))

    @contextlib.asynccontextmanager
    async def going(self):
        await self.server.start()
        try:
            await self.start_simulation()
            self._tasks["plane"] = asyncio.create_task(self.plane.run())
            await self.plane.ready.wait()
            yield self
            self.check_tasks()
        finally:
            for name in tuple(self._tasks):
                await self._stop(name)
            await self.client.close()
            await self.server.close()

    async def start_simulation(self):
        self.simulation = Simulation(self.client, self.chosen, time=self.time)
        task = self._tasks["simulation"] = asyncio.create_task(self.simulation.run())
        ready = asyncio.ensure_future(self.simulation.ready.wait())
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        self.check_tasks()

    async def restart_simulation(self):
        await self._stop("simulation")
        await self.start_simulation()

    async def _stop(self, name):
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def check_tasks(self):
        for task in self._tasks.values():
            if task.done():
                task.result()

    async def create(self, *documents):
        made = None
        for document in documents:
            kind = kind_of(document["kind"], document["apiVersion"])
            made = await self.client.create(kind, in_place(document, kind))
        return made

    async def list(self, kind):
        return (await self.client.list_all(kind_of(kind)))["items"]

    async def get(self, kind, name):
        return next((each for each in await self.list(kind) if each["metadata"]["name"] == name), None)

    async def patch(self, kind, name, change):
        kind = kind_of(kind)
        return await self.client.patch(kind, name, change, namespace="default" if kind.namespaced else "")

    async def annotate(self, kind, name, annotations):
        return await self.patch(kind, name, {"metadata": {"annotations": annotations}})

    async def delete(self, kind, name):
        kind = kind_of(kind)
        await self.client.delete(kind, name, namespace="default" if kind.namespaced else "")

    async def until(self, holds, within=3600):
        end = asyncio.get_running_loop().time() + within
        while not (found := await holds()):
            self.check_tasks()
            assert asyncio.get_running_loop().time() < end, "too late"
            await asyncio.sleep(1)
        return found

    async def phase(self, name, phase, within=3600):
        async def there():
            pod = await self.get("Pod", name)
            return pod if pod and (pod.get("status") or {}).get("phase") == phase else None

        return await self.until(there, within)
