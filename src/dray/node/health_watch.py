"""Health watch: one stream of device health for each driver instance that offers it, into the health cache.

A stream that ends or fails is opened again after a pause; one that the driver does not implement is not. What is
known of a driver's devices is dropped when the last of its streams ends. Whoever has pods on a device is told of each
change.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import HEALTH_V1, HEALTH_V1ALPHA1, Service
from dray.client.clock import SystemTime, TimeOfDay, anchored_seconds
from dray.node.health_cache import HEALTHY, UNHEALTHY, UNKNOWN, DeviceHealth, HealthCache, Place
from dray.node.timing import Timing

Changed = Callable[[str, set[Place]], None]
"""Called with a driver and its devices whose health has changed."""

# In the order of preference of the node, unlike the versions of the DRA protocol.
_PROTOCOLS: Final[Mapping[str, Service]] = {protocol.name: protocol for protocol in (HEALTH_V1, HEALTH_V1ALPHA1)}
_HEALTH: Final = {1: HEALTHY, 2: UNHEALTHY}
_logger = logging.getLogger(__name__)


class HealthWatch:
    def __init__(
        self, cache: HealthCache, changed: Changed, *, timing: Timing | None = None, time: TimeOfDay | None = None
    ) -> None:
        self.cache = cache
        self._changed = changed
        self._timing = timing or Timing()
        self._now = anchored_seconds(time or SystemTime())
        self._streams: Counter[str] = Counter()

    def offered(self, versions: Sequence[str]) -> str:
        """Returns the health protocol to use with a plugin of these versions; empty if it has none."""
        return next((protocol for protocol in _PROTOCOLS if protocol in versions), "")

    async def run(self) -> None:
        """Drops expired reports until it is cancelled."""
        while True:
            await asyncio.sleep(self._timing.health_check)
            for driver, devices in self.cache.expire(self._now()).items():
                _logger.warning("health of DRA driver %s: %d devices were not reported in time", driver, len(devices))
                self._changed(driver, devices)

    async def watch(self, driver: str, channel: grpc.aio.Channel, version: str) -> None:
        """Watches one instance until it is cancelled, or the instance does not implement the protocol."""
        stub = _PROTOCOLS[version].stub(channel)
        while True:
            self._streams[driver] += 1
            try:
                # The driver may be starting; this call does not delay a prepare.
                stream = stub.NodeWatchResources(messages.NodeWatchResourcesRequest(), wait_for_ready=True)
                async for response in stream:
                    self._take(driver, response)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                _logger.warning("health of DRA driver %s: %s: %s", driver, error.code().name, error.details())
            finally:
                self._streams[driver] -= 1
                if not self._streams[driver] and (gone := self.cache.drop(driver)):
                    self._changed(driver, gone)
            await asyncio.sleep(self._timing.health_reconnect)

    def _take(self, driver: str, response: messages.NodeWatchResourcesResponse) -> None:
        reports = [self._report(driver, device) for device in response.devices]
        if changed := self.cache.update(driver, reports, self._now()):
            self._changed(driver, changed)

    def _report(self, driver: str, said: messages.DeviceHealth) -> DeviceHealth:
        timeout = said.health_check_timeout_seconds
        if timeout < 0:
            _logger.warning(
                "health of DRA driver %s: timeout %d of %s is negative", driver, timeout, said.device.device_name
            )
        return DeviceHealth(
            said.device.pool_name,
            said.device.device_name,
            _HEALTH.get(said.health, UNKNOWN),
            float(timeout) if timeout > 0 else self._timing.health_timeout,
            said.message,
        )
