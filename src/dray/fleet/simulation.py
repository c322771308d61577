"""A simulated fleet on an API server: nodes, slices with devices that fail, and pods that live by rule.

It runs against any API server, beside scheduler and controllers, and keeps nothing to itself: times and restarts of
pods stand in their status, the age of a node says which of its devices have failed, and chance follows from the seed
and from names. So it can be stopped and started again at any time, and carries on.
"""

from __future__ import annotations

import asyncio

from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.controllers.environment import Environment
from dray.drivers.class_creation import make_classes
from dray.drivers.devices.names import TPU
from dray.fleet.choice import Chosen
from dray.fleet.heartbeats import Heartbeats
from dray.fleet.kubelets import Kubelets
from dray.fleet.prepared_claims import Device
from dray.fleet.publication import Publication
from dray.fleet.registration import register


class Simulation:
    """Simulates a fleet. `published` counts, once `ready` is set, the objects that were created."""

    def __init__(self, client: ApiClient, chosen: Chosen, *, time: TimeOfDay | None = None) -> None:
        self._client = client
        self._machines = chosen.by_name()
        self._events = EventRecorder(client, "simulated-kubelet", time=time or SystemTime())
        self.informers = Informers(client)
        environment = Environment(client, self.informers, self._events, time or SystemTime())
        self.publication = Publication(environment, chosen)
        self.heartbeats = Heartbeats(environment, chosen, again=self._back)
        self.kubelets = Kubelets(environment, chosen, has_device=self._has_device, silence=self.heartbeats.silence)
        self._devices: dict[tuple[str, str], frozenset[str]] = {}
        self.published: dict[str, int] = {}
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Runs the simulated fleet until it is cancelled."""
        await self._register()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="informers of the fleet")
            group.create_task(self._events.run(), name="events of the fleet")
            await self.informers.synced()
            await self.kubelets.recall()
            for part in (self.publication, self.heartbeats, self.kubelets):
                group.create_task(part.run(), name=type(part).__name__.lower())
            if any(machine.is_slice_host for machine in self._machines.values()):
                group.create_task(self._publish_slices(), name="slices of TPUs")
            # All slices are published then.
            await self.publication.settled()
            self.ready.set()

    async def _register(self) -> None:
        pools = [self.publication.pools(machine) for machine in self._machines.values()]
        drivers = {driver for pool in pools for driver in pool}
        drivers |= {TPU for machine in self._machines.values() if machine.is_slice_host}
        classes = await make_classes(self._client, drivers)
        await register(self._client, self._machines)
        slices = sum(len(contents) for pool in pools for contents in pool.values())
        self.published = {"nodes": len(self._machines), "resourceslices": slices, "deviceclasses": classes}

    async def _publish_slices(self) -> None:
        """Runs the TPU slice driver, which also publishes slices on real clusters."""
        from dray.driver.options import RunnerOptions
        from dray.driver.runner import DriverRunner
        from dray.drivers.tpu.slices import TpuSlices

        await DriverRunner(TpuSlices(), self._client, RunnerOptions()).run()

    def _has_device(self, node: str, device: Device) -> bool:
        driver, pool, name = device
        if pool != node:
            return True
        key = (node, driver)
        if key not in self._devices:
            contents = self.publication.pools(self._machines[node]).get(driver, ())
            self._devices[key] = frozenset(published["name"] for content in contents for published in content.devices)
        return name in self._devices[key]

    def _back(self, node: str) -> None:
        self.kubelets.look(node)
