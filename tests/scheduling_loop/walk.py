"""A random walk through the life of a cluster; wherever it comes to rest, all must be sound.

Server, scheduler and controllers are real; time is virtual, chance has a seed, and the way between them is unreliable.
"""

import asyncio
import contextlib
from contextlib import aclosing
from random import Random
from uuid import UUID

from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.interface import DeleteOptions
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.scheduling.scheduler import Options, Scheduler
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
from tests.scheduling_loop.soundness import (
    could_run,
    differences,
    felled,
    keep_reserved,
    kept_off,
    outlived,
    told,
    torn,
)
from tests.scheduling_loop.walk_steps import CONSTRAINTS, NODES, REQUESTS, STEPS, Steps, network, slices_of
from tests.virtual_time import VirtualTime

CONTROLLERS = (
    "resourceclaim",
    "podgroup-protection",
    "device-taint-eviction",
    "garbage-collector",
    "pod-garbage-collector",
    "disruption",
)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Walk(Steps):
    def __init__(self, seed, *, rate=0.08, trace=None):
        self.random = Random(seed)
        self._chance = Random(seed + 1)
        self._rate = rate
        self._time = VirtualTime()
        context = Context(MemoryStore(), clock=self._time.now, new_uid=self._uid, new_suffix=self._suffix)
        self.server = ApiServer(context)
        self._application = Application(self.server)
        self.client = ApiClient(self._way())
        self.checker = Checker([*(s for n in range(NODES) for s in slices_of(f"n{n}")), network()])
        self.steps = self.kills = self.rests = self.bound = 0
        self._ways = {}
        self._planes = {}
        self._running = {}
        self._ending = []
        self._number = 0
        self._gangs = {}
        """The pods that were made for each, by their names."""
        self._trees = {}
        """The gangs of each."""
        self._trace = trace

    def _uid(self):
        return str(UUID(int=self._chance.getrandbits(128)))

    def _suffix(self):
        return "".join(self._chance.choices(_LETTERS, k=5))

    def _way(self):
        return InProcessTransport(self._application)

    # The parts

    @contextlib.asynccontextmanager
    async def going(self):
        await self.server.start()
        watching = asyncio.create_task(self.checker.watch(self.client))
        kubelet = asyncio.create_task(self._kubelet())
        try:
            await self._furnish()
            for part in ("scheduler", "controllers"):
                await self._start(part)
            yield self
        finally:
            for part in tuple(self._running):
                await self._stop(part)
            tasks = (watching, kubelet, *self._ending)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.client.close()
            await self.server.close()

    async def _start(self, part):
        way = self._ways[part] = FaultyTransport(self._way(), self._chance, rate=self._rate, slowest=0.002)
        client = client_over(way, self._chance)
        scheduler = Options() if part == "scheduler" else None
        options = PlaneOptions(scheduler, CONTROLLERS if part == "controllers" else ())
        plane = self._planes[part] = ControlPlane(client, options, time=self._time)
        self._running[part] = asyncio.create_task(plane.run())

    async def _stop(self, part):
        """It dies in the middle of whatever it does."""
        self._ways[part].cut()
        task = self._running.pop(part)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _kubelet(self):
        """Pods that are to end do so, after a while."""
        ending = set()
        async with aclosing(self.client.watch(kind_of("Pod"))) as events:
            async for event in events:
                uid = event.object["metadata"].get("uid")
                if event.type == "MODIFIED" and event.object["metadata"].get("deletionTimestamp") and uid not in ending:
                    ending.add(uid)
                    self._ending.append(asyncio.create_task(self._end(event.object)))

    async def _end(self, pod):
        await asyncio.sleep(self._chance.random() * 6)
        await self._try(self._remove("Pod", pod, grace_period=0))

    async def _furnish(self):
        for kind in ("gpu", "share", "part", "net"):
            await self._create(gpus.device_class(kind))
        for name, value in (("low", 10), ("high", 100)):
            await self._create(objects.priority_class(name, value))
        for name, wanted in REQUESTS.items():
            await self._create(objects.claim_template(name, wanted, constraints=CONSTRAINTS.get(name)))
        for number in range(NODES):
            await self._add_node(f"n{number}")
        await self._create(network())

    # Reaching the server

    async def _create(self, document):
        return await make(self.client, document)

    async def _list(self, kind):
        return (await self.client.list_all(kind_of(kind)))["items"]

    async def _remove(self, kind, document, **options):
        metadata = document["metadata"]
        options = DeleteOptions(uid=metadata["uid"], **options)
        await self.client.delete(
            kind_of(kind), metadata["name"], namespace=metadata.get("namespace", ""), options=options
        )

    async def _try(self, doing):
        """What is refused is refused: names may be taken, objects gone."""
        with contextlib.suppress(ApiError):
            await doing

    # Steps

    def weights(self):
        """With their weights."""
        return STEPS

    async def step(self):
        self.steps += 1
        names, weights = zip(*self.weights().items(), strict=True)
        name = self.random.choices(names, weights)[0]
        if self._trace is not None:
            self._trace(f"{asyncio.get_running_loop().time():.2f} {name}")
        await getattr(self, name)()
        await self.pause(self.random.random() ** 3 * 3)

    async def pause(self, seconds):
        await asyncio.sleep(seconds)

    async def kill(self):
        part = self.random.choice(("scheduler", "scheduler", "controllers"))
        self.kills += 1
        await self._stop(part)
        await asyncio.sleep(self.random.random() * 2)
        await self._start(part)

    # Rest

    async def rest(self):
        """Everybody is well and has time to do what there is to do; then all must be as it should."""
        self.rests += 1
        rates = {part: way.rate for part, way in self._ways.items()}
        for way in self._ways.values():
            way.rate = 0
        await asyncio.sleep(120)
        problems = [*self.checker.problems, *await self._problems()]
        assert not problems, "\n".join(problems)
        for part, rate in rates.items():
            self._ways[part].rate = rate

    async def _problems(self):
        for part, task in self._running.items():
            if task.done():
                return [f"{part} ended: {task.exception()!r}"]
        live = self._planes["scheduler"].loop.scheduler
        pods = {each["metadata"]["uid"]: each for each in await self._list("Pod")}
        self.bound += sum(bool(each["spec"].get("nodeName")) for each in pods.values())
        fresh = await self._relisted()
        # What is kept for a group only this scheduler knows.
        with live.nominations.without_reservations():
            unlike = differences(live, fresh)
        keep_reserved(live, fresh)
        waiting = could_run(fresh, kept_off(live))
        return [
            *outlived(await self._list("ResourceClaim"), pods),
            *torn(await self._list("PodGroup"), pods, self._gangs),
            *felled(self._trees, self._gangs, pods),
            *unlike,
            *waiting,
            *told(live, waiting),
        ]

    async def _relisted(self):
        """A scheduler that knows what the server knows, and nothing else. It keeps no places from anybody: it is asked
        who could run now."""
        fresh, now = Scheduler(Options(reservation_seconds=0)), self._time.now().timestamp()
        fresh.state.groups.served.add("scheduling.k8s.io")
        cluster = ("Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule")
        await self._relist_queues(fresh, now)
        for kind in (*cluster, "PodDisruptionBudget", "CompositePodGroup", "PodGroup", "ResourceClaim", "Pod"):
            for each in await self._list(kind):
                fresh.put(kind, each, now)
        return fresh

    async def _relist_queues(self, fresh, now):
        """There are none here."""
