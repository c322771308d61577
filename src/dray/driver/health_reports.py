"""Health reports: the driver's latest, sent to each stream of a kubelet and repeated before they expire.

A device that is reported unhealthy is tainted until it is reported healthy; `UNKNOWN` leaves it as it is. A driver
whose generator of reports ends or fails is asked for a new one; meanwhile nothing is repeated, so that the kubelet
takes devices whose health nobody knows for unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from dray.driver.devices import Device, Pool, Taint
from dray.driver.driver import Driver
from dray.driver.errors import DriverError
from dray.driver.health import DeviceHealth, Health
from dray.driver.metrics import DriverMetrics

_DEFAULT_TIMEOUT: Final = 30
_RETRY: Final = 5.0
_logger = logging.getLogger(__name__)


class HealthReports:
    def __init__(self, driver: Driver, publish: Callable[[], None], metrics: DriverMetrics) -> None:
        self._driver = driver
        self._publish = publish
        self._metrics = metrics
        self._latest: Sequence[DeviceHealth] | None = None
        self._unhealthy: set[tuple[str, str]] = set()
        self._changed = asyncio.Condition()
        self._closed = False

    async def run(self) -> None:
        """Follows the driver's health reports until it is cancelled; retries after errors."""
        while True:
            try:
                await self._follow()
            except DriverError as error:
                self._metrics.failed("health")
                _logger.error("driver %s: the health of its devices cannot be followed: %s", self._driver.name, error)
            except Exception:
                self._metrics.failed("health")
                _logger.exception("driver %s: the health of its devices cannot be followed", self._driver.name)
            await self._take(None)
            await asyncio.sleep(_RETRY)

    async def _follow(self) -> None:
        reports = self._driver.health()
        assert reports is not None
        try:
            async for report in reports:
                await self._take(report)
        finally:
            await _close(reports)

    async def _take(self, report: Sequence[DeviceHealth] | None) -> None:
        async with self._changed:
            self._latest = report
            self._changed.notify_all()
        before = set(self._unhealthy)
        for device in report or ():
            if device.health is Health.UNHEALTHY:
                self._unhealthy.add((device.pool, device.device))
            elif device.health is Health.HEALTHY:
                self._unhealthy.discard((device.pool, device.device))
        self._metrics.unhealthy(len(self._unhealthy))
        if self._unhealthy != before and self._driver.unhealthy_effect:
            self._publish()

    async def watch(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """The latest report at once, each new one, and the same again before it expires."""
        sent: Sequence[DeviceHealth] | None = None
        while not self._closed:
            async with self._changed:
                if self._latest is sent:
                    await self._new(sent)
                sent = self._latest
            if sent is not None and not self._closed:
                yield sent

    async def close(self) -> None:
        """Ends all streams: a server that stops would wait for them."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def _new(self, sent: Sequence[DeviceHealth] | None) -> None:
        """Waits for a report that was not sent yet, or until the sent one must be repeated."""
        try:
            async with asyncio.timeout(None if sent is None else _period(sent)):
                await self._changed.wait_for(lambda: self._closed or self._latest is not sent)
        except TimeoutError:
            return

    def tainted(self, pool: Pool) -> Pool:
        """The pool with a taint on its unhealthy devices."""
        if not self._driver.unhealthy_effect or not any(name == pool.name for name, _ in self._unhealthy):
            return pool

        def marked(devices: Sequence[Device]) -> list[Device]:
            return [
                replace(device, taints=(*device.taints, self._taint))
                if (pool.name, device.name) in self._unhealthy
                else device
                for device in devices
            ]

        return replace(pool, devices=marked(pool.devices), slices=[marked(group) for group in pool.slices])

    @property
    def _taint(self) -> Taint:
        return Taint(f"{self._driver.name}/unhealthy", effect=self._driver.unhealthy_effect)


def _period(report: Sequence[DeviceHealth]) -> float:
    """A third of the shortest timeout: two may be lost on the way."""
    return (
        min((device.timeout if device.timeout > 0 else _DEFAULT_TIMEOUT for device in report), default=_DEFAULT_TIMEOUT)
        / 3
    )


async def _close(reports: AsyncIterator[Sequence[DeviceHealth]]) -> None:
    """Generators are closed when nobody reads them any more; other iterators need nothing."""
    if isinstance(reports, AsyncGenerator):
        await reports.aclose()
