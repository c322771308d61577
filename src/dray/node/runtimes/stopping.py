"""Stopping of a container: a signal, time to obey it, then SIGKILL; the same for every runtime."""

from __future__ import annotations

import asyncio
import contextlib
from signal import SIGKILL
from typing import Protocol

from dray.node.runtimes.interface import ContainerState


class Signalled(Protocol):
    async def signal(self, container_id: str, number: int) -> None: ...

    async def wait(self, container_id: str) -> ContainerState: ...


async def stop(runtime: Signalled, container_id: str, grace: float, number: int) -> ContainerState:
    if grace > 0:
        await runtime.signal(container_id, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                return await runtime.wait(container_id)
    await runtime.signal(container_id, SIGKILL)
    return await runtime.wait(container_id)
