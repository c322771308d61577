"""The control plane composed: shared informers, a scheduler, controllers.

Scheduler and controllers are parts that fail, and are started again, each by itself. With leader election only the one
that holds the lease works; what is watched is kept current meanwhile, so that a successor starts at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from prometheus_client import CollectorRegistry

from dray.api.gates import ALL_GATES, FeatureGates
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.election import LeaderElection
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.control_plane.parts import Make, Part, PartMetrics, Run
from dray.controllers.environment import Environment, RootCertificate
from dray.controllers.notifications.options import NO_NOTIFICATIONS, NotificationOptions
from dray.controllers.registry import CONTROLLERS, make
from dray.process.loop_watch import LoopWatch
from dray.process.tasks import end_tasks, unless
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.loop import SchedulerLoop, Sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease that must be held to work."""

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    scheduler: Options | None = None
    """Options of the scheduler; None if another scheduler places pods."""
    controllers: tuple[str, ...] = tuple(CONTROLLERS)
    lease: Lease | None = None
    gates: FeatureGates = ALL_GATES
    sharing: Sharing | None = None
    """Settings for other schedulers that allocate devices at the same time; None for a single scheduler."""
    root: RootCertificate = field(default_factory=RootCertificate)
    """The root certificate for namespaces, if the server does not write it into kube-system."""
    notifications: NotificationOptions = NO_NOTIFICATIONS


class ControlPlane:
    def __init__(
        self,
        client: ApiClient,
        options: PlaneOptions,
        *,
        lease_client: ApiClient | None = None,
        time: TimeOfDay | None = None,
    ) -> None:
        """`lease_client` has connections of its own for the lease; by default it is `client`."""
        self.options = options
        self._client = client
        self._lease_client = lease_client or client
        self._time = time or SystemTime()
        self.informers = Informers(client)
        self.events: list[EventRecorder] = []
        self.loop: SchedulerLoop | None = None
        """The running scheduler; a new one after a failure, None before `run` and without a scheduler."""
        self.environment = Environment(
            client,
            self.informers,
            self._recorder("dray-controllers"),
            self._time,
            gates=options.gates,
            root=options.root,
            notifications=options.notifications,
        )
        """The environment of controllers, without their metrics."""
        self._own_metrics = CollectorRegistry()
        self.watch = LoopWatch(self._own_metrics)
        self.changed = asyncio.Event()
        """Set when a part fails or is started again."""
        self.parts = self._parts()
        PartMetrics(self._own_metrics, self.parts)
        self.ready = asyncio.Event()
        """Set once all informers are synced and work begins."""

    def obstacles(self) -> list[str]:
        """Returns why the control plane does not work as it should; empty if it does."""
        found = self.informers.troubles()
        found += self.loop.troubles() if self.loop is not None else []
        found += [f"{part.name}: {part.problem}" for part in self.parts if part.problem]
        if not self.ready.is_set():
            found.append("not leading yet" if self.options.lease is not None else "not working yet")
        return found

    def plugins(self) -> dict[str, str]:
        """Returns the problem of each scheduler plugin of users by name; empty for a used one."""
        return self.loop.plugins.problems() if self.loop is not None else {}

    def _recorder(self, component: str) -> EventRecorder:
        recorder = EventRecorder(self._client, component, time=self._time)
        self.events.append(recorder)
        return recorder

    def metrics(self) -> list[CollectorRegistry]:
        """Returns a registry for each part, because two parts may use the same metric name."""
        return [self._own_metrics, *(part.metrics for part in self.parts)]

    async def run(self) -> None:
        """Runs scheduler and controllers until it is cancelled.

        Raises LeadershipLost if the lease cannot be renewed.
        """
        for part in self.parts:
            part.prepare()
        watching = asyncio.create_task(self.informers.run())
        writing = [asyncio.create_task(recorder.run()) for recorder in self.events]
        try:
            await unless(watching, self.informers.synced())
            if self.loop is not None:
                # Before the lease is held: another process may have permissions that are missing here.
                await unless(watching, self.parts[0].within(self.loop.prepare))
            lease = self.options.lease
            if lease is None:
                await unless(watching, self._work())
            else:
                election = LeaderElection(self._lease_client, lease.namespace, lease.name, lease.identity)
                await unless(watching, election.lead(self._work))
        finally:
            await self._say_the_rest(writing)
            await end_tasks((watching, *writing))

    def _parts(self) -> list[Part]:
        controllers = [self._part(name, partial(self._controller, name)) for name in self.options.controllers]
        if (options := self.options.scheduler) is None:
            return controllers
        return [self._part("scheduler", partial(self._scheduler, options, self._recorder(options.name))), *controllers]

    def _part(self, name: str, make: Make) -> Part:
        return Part(name, make, self.informers, changed=self.changed.set)

    def _scheduler(self, options: Options, recorder: EventRecorder, metrics: CollectorRegistry) -> Run:
        self.loop = SchedulerLoop(
            self._client,
            self.informers,
            recorder,
            options,
            time=self._time,
            metrics=metrics,
            sharing=self.options.sharing,
            changed=self.changed.set,
        )
        return self.loop.run

    def _controller(self, name: str, metrics: CollectorRegistry) -> Run:
        return make(name, replace(self.environment, metrics=metrics)).run

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in self.parts:
                group.create_task(part.keep(), name=f"keeping {part.name}")
            self.ready.set()
            # The shared informers are used by others, even if nothing works here.
            await asyncio.Event().wait()

    async def _say_the_rest(self, writing: list[asyncio.Task[None]]) -> None:
        """Writes recorded events, for a short time at most."""
        if any(task.done() for task in writing):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.gather(*(recorder.written() for recorder in self.events))
