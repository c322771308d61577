"""DRA plugins: the registered instances of each driver, and which of them is called.

A driver may have several instances at once during a rolling update, each with a socket of its own. Calls go to the
newest that is connected, and to the newest of all where none is. A lost connection does not deregister an instance;
it is dialled again for as long as its registration socket is there. Losing the last connected instance of a driver
starts the wiping of its ResourceSlices, and every instance that offers device health is watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

import grpc

from dray.api import names
from dray.node.errors import DriverNotRegistered, RegistrationError
from dray.node.health_watch import HealthWatch
from dray.node.metrics import NodeMetrics
from dray.node.plugin_client import PluginClient, dra_version
from dray.node.registration_client import PluginInfo
from dray.node.slice_wiper import SliceWiper
from dray.node.timing import Timing
from dray.process.tasks import end_tasks

_LONGEST_NAME: Final = 63
_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Instance:
    info: PluginInfo
    client: PluginClient
    connected: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class DraPlugins:
    """Handles plugins of type DRAPlugin; a wiper and a health watch are optional."""

    def __init__(
        self,
        *,
        timing: Timing | None = None,
        wiper: SliceWiper | None = None,
        health: HealthWatch | None = None,
        metrics: NodeMetrics | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
    ) -> None:
        self._timing = timing or Timing()
        self._wiper = wiper
        self._health = health
        self._metrics = metrics
        self._interceptors = interceptors
        self._instances: dict[str, list[_Instance]] = {}
        """Instances by driver, oldest first."""

    @property
    def drivers(self) -> list[str]:
        return sorted(self._instances)

    def endpoints(self, driver: str) -> list[str]:
        """Returns the sockets of the driver's instances, oldest first."""
        return [instance.info.endpoint for instance in self._instances.get(driver, ())]

    def is_connected(self, driver: str) -> bool:
        return any(instance.connected for instance in self._instances.get(driver, ()))

    def client(self, driver: str) -> PluginClient:
        """Returns the client of the newest connected instance, else of the newest; raises DriverNotRegistered."""
        instances = self._instances.get(driver)
        if not instances:
            raise DriverNotRegistered(driver)
        return next((instance for instance in reversed(instances) if instance.connected), instances[-1]).client

    def validate(self, info: PluginInfo) -> None:
        if not names.is_subdomain(info.name) or names.size(info.name) > _LONGEST_NAME:
            raise RegistrationError(
                f"driver name {info.name!r} is not a lower-case DNS subdomain of at most {_LONGEST_NAME} characters"
            )
        if not PurePath(info.endpoint).is_absolute():
            raise RegistrationError(f"DRA driver {info.name}: endpoint {info.endpoint!r} is not an absolute path")
        dra_version(info.versions)
        self._check_new(info)

    def register(self, info: PluginInfo) -> None:
        self._check_new(info)
        client = PluginClient(
            info.name,
            info.endpoint,
            info.versions,
            limit=self._timing.call,
            metrics=self._metrics,
            interceptors=self._interceptors,
        )
        instance = _Instance(info, client)
        self._instances.setdefault(info.name, []).append(instance)
        watching = self._watch_connection(instance)
        instance.tasks.append(asyncio.create_task(watching, name=f"connection to {info.endpoint}"))
        if self._health is not None and (offered := self._health.offered(info.versions)):
            watch = self._health.watch(info.name, client.channel, offered)
            instance.tasks.append(asyncio.create_task(watch, name=f"health of {info.name}"))

    async def deregister(self, info: PluginInfo) -> None:
        instances = self._instances.get(info.name, [])
        instance = next((instance for instance in instances if instance.info.endpoint == info.endpoint), None)
        if instance is None:
            return
        instances.remove(instance)
        if not instances:
            del self._instances[info.name]
        await self._end(instance)
        self._sync_wiping(info.name)

    async def close(self) -> None:
        instances = [instance for driver in self._instances.values() for instance in driver]
        self._instances.clear()
        for instance in instances:
            await self._end(instance)

    def _check_new(self, info: PluginInfo) -> None:
        if info.endpoint in self.endpoints(info.name):
            raise RegistrationError(f"DRA driver {info.name}: endpoint {info.endpoint} already registered")

    async def _end(self, instance: _Instance) -> None:
        await end_tasks(instance.tasks)
        await instance.client.close()

    async def _watch_connection(self, instance: _Instance) -> None:
        channel = instance.client.channel
        while True:
            # A channel is idle after a lost connection; asking for its state this way reconnects it.
            state = channel.get_state(try_to_connect=True)
            connected = state is grpc.ChannelConnectivity.READY
            if connected != instance.connected:
                instance.connected = connected
                said = "connected" if connected else "connection lost"
                _logger.info("DRA driver %s at %s: %s", instance.info.name, instance.info.endpoint, said)
            self._sync_wiping(instance.info.name)
            await channel.wait_for_state_change(state)

    def _sync_wiping(self, driver: str) -> None:
        if self._wiper is not None:
            self._wiper.back(driver) if self.is_connected(driver) else self._wiper.lost(driver)
