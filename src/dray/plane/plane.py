"""What runs beside an API server, composed: informers shared by all, a scheduler, controllers.

With leader election only the one that holds the lease works; what is watched is kept current meanwhile, so that a
successor starts at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from dray.api.gates import ALL_GATES, FeatureGates
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.election import LeaderElection
from dray.client.events import EventRecorder
from dray.client.informers import Informers
from dray.client.interface import Client
from dray.controllers.environment import Environment
from dray.controllers.registry import CONTROLLERS, make
from dray.scheduler.loop import SchedulerLoop, Sharing
from dray.scheduling.scheduler import Options


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease that must be held to work."""

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    scheduler: Options | None = None
    """None where another scheduler places pods."""
    controllers: tuple[str, ...] = tuple(CONTROLLERS)
    lease: Lease | None = None
    gates: FeatureGates = ALL_GATES
    sharing: Sharing | None = None
    """Where other schedulers may give devices away at the same time: without a lease, and not the only one."""


class ControlPlane:
    def __init__(
        self,
        client: Client,
        options: PlaneOptions,
        *,
        lease_client: Client | None = None,
        time: TimeOfDay | None = None,
    ) -> None:
        """`lease_client` has connections that the work does not use; it is `client` where nobody waits for one."""
        self.options = options
        self._client = client
        self._lease_client = lease_client or client
        self._time = time or SystemTime()
        # Two, as both sides count claims they create under one name.
        self.scheduler_metrics = CollectorRegistry()
        self.controller_metrics = CollectorRegistry()
        self.informers = Informers(client)
        self.events: list[EventRecorder] = []
        self.loop: SchedulerLoop | None = None
        if options.scheduler is not None:
            recorder = self._recorder(options.scheduler.name)
            self.loop = SchedulerLoop(
                client,
                self.informers,
                recorder,
                options.scheduler,
                time=self._time,
                metrics=self.scheduler_metrics,
                sharing=options.sharing,
            )
        self.environment = Environment(
            client,
            self.informers,
            self._recorder("dray-controllers"),
            self._time,
            self.controller_metrics,
            options.gates,
        )
        """What the controllers are given when they are made, at the start of `run`."""
        self.ready = asyncio.Event()
        """Set once everything that is watched is known, and work begins."""

    def obstacles(self) -> list[str]:
        """Why it does not work, or not as it should; nothing if it does."""
        found = self.informers.troubles()
        if not self.ready.is_set():
            found.append("not leading yet" if self.options.lease is not None else "not working yet")
        return found

    def _recorder(self, component: str) -> EventRecorder:
        recorder = EventRecorder(self._client, component, time=self._time)
        self.events.append(recorder)
        return recorder

    async def run(self) -> None:
        """Until it is cancelled. Raises LeadershipLost where the lease cannot be kept."""
        parts = self._parts()
        watching = asyncio.create_task(self.informers.run())
        writing = [asyncio.create_task(recorder.run()) for recorder in self.events]
        try:
            await self.informers.synced()
            if self.loop is not None:
                # Not after the lease is held: another one may have the rights that are missing here.
                await self.loop.prepare()
            lease = self.options.lease
            if lease is None:
                await self._work(parts)
            else:
                election = LeaderElection(self._lease_client, lease.namespace, lease.name, lease.identity)
                await election.lead(lambda: self._work(parts))
        finally:
            await self._say_the_rest(writing)
            for task in (watching, *writing):
                task.cancel()
            await asyncio.gather(watching, *writing, return_exceptions=True)

    def _parts(self) -> list[Callable[[], Awaitable[None]]]:
        """Made before the informers start, so that all they read is known when work begins."""
        scheduling = [self.loop.run] if self.loop is not None else []
        return [*scheduling, *(make(name, self.environment).run for name in self.options.controllers)]

    async def _work(self, parts: list[Callable[[], Awaitable[None]]]) -> None:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(_run(part))
            self.ready.set()
            # Informers are there for others too, even if nothing works here.
            await asyncio.Event().wait()

    async def _say_the_rest(self, writing: list[asyncio.Task[None]]) -> None:
        """Events that were recorded are still written, if that is quick."""
        if any(task.done() for task in writing):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.gather(*(recorder.written() for recorder in self.events))


async def _run(part: Callable[[], Awaitable[None]]) -> None:
    await part()
