"""Stopping of a container: a signal, time to obey it, then SIGKILL; the same for every runtime.

The supervisor of a container, such as its shim or conmon, is asked first. Where it does not answer, the processes are
killed without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from signal import SIGKILL
from typing import Final, Protocol

from dray.node.runtimes.interface import ContainerState

_logger = logging.getLogger(__name__)
OBEY_SECONDS: Final = 5.0
"""Timeout for the supervisor to send a signal, and for the container to end after SIGKILL."""


class Signalled(Protocol):
    async def signal(self, container_id: str, number: int) -> None: ...

    async def wait(self, container_id: str) -> ContainerState: ...

    async def kill(self, container_id: str) -> None:
        """Kills all processes of the container, and its supervisor, without the supervisor's help."""


async def stop(runtime: Signalled, container_id: str, grace: float, number: int) -> ContainerState:
    if grace > 0:
        await _signalled(runtime, container_id, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                return await runtime.wait(container_id)
    await _signalled(runtime, container_id, SIGKILL)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OBEY_SECONDS):
                return await runtime.wait(container_id)
        _logger.warning(
            "container %s has not ended %g s after SIGKILL; its processes are killed without its supervisor",
            container_id,
            OBEY_SECONDS,
        )
        await runtime.kill(container_id)


async def _signalled(runtime: Signalled, container_id: str, number: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(OBEY_SECONDS):
            await runtime.signal(container_id, number)
