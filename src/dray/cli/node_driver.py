"""NodeDriver: a driver that runs in the process of the node agent. A driver that fails never ends the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.driver import Driver, RunnerOptions
    from dray.driver.runner import DriverRunner

_PAUSES: Final = (5.0, 10.0, 30.0)
_logger = logging.getLogger("dray.node")


class NodeDriver:
    def __init__(self, name: str, make: Callable[[], Driver], client: ApiClient, options: RunnerOptions) -> None:
        self._name = name
        self._make = make
        self._client = client
        self._options = options
        self.tried = asyncio.Event()
        """Set once the driver has published its devices, or has failed for the first time."""

    async def run(self, look: Callable[[], None]) -> None:
        """Runs the driver, and again when it has failed; `look` has the agent look for new drivers.

        A failure is logged when it differs from the one before.
        """
        failures, said = 0, ""
        while True:
            try:
                await self._serve(look)
                return
            except Exception as error:
                if str(error) != said:
                    said = str(error)
                    _logger.error("driver %s failed and is restarted: %s", self._name, error)
            self.tried.set()
            await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    async def _serve(self, look: Callable[[], None]) -> None:
        from dray.driver.runner import DriverRunner

        async with DriverRunner(self._make(), self._client, self._options) as runner:
            look()
            published = asyncio.create_task(self._note_published(runner))
            try:
                await runner.serve()
            finally:
                published.cancel()

    async def _note_published(self, runner: DriverRunner) -> None:
        await runner.registration.registered.wait()
        await runner.publisher.published()
        self.tried.set()
