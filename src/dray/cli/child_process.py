"""A component as a child of `dray up`: see `dray.control_plane.child`, which starts it and serves its requests."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from dray.cli.serving import stopping
from dray.control_plane.child import Report

if TYPE_CHECKING:
    from dray.client.api import ApiClient


class Component(Protocol):
    ready: asyncio.Event

    async def run(self) -> None: ...


async def work(
    make: Callable[[ApiClient], Component],
    end: socket.socket,
    logger: logging.Logger,
    made: Callable[[], Mapping[str, int]] = dict,
) -> int:
    """Runs the component until the parent says stop or is gone; `made` counts what it has made once it is ready."""
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport

    stop = stopping(signal.SIGTERM)
    transport = await LinkTransport.connect(end)
    try:
        component = make(ApiClient(transport))
    except Exception as error:
        # It would not be otherwise the next time.
        _tell(Report(refused=f"{type(error).__name__}: {error}"))
        await transport.close()
        return 2
    try:
        working = asyncio.create_task(component.run())
        reporting = asyncio.create_task(_report(component, made))
        waiting = [asyncio.create_task(each.wait()) for each in (stop, transport.lost)]
        await asyncio.wait((working, *waiting), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, reporting, *waiting):
            task.cancel()
        (ended, *_) = await asyncio.gather(working, reporting, *waiting, return_exceptions=True)
    finally:
        await transport.close()
    if isinstance(ended, Exception):
        logger.error("%s failed", type(component).__name__, exc_info=ended)
        return 1
    return 0


async def _report(component: Component, made: Callable[[], Mapping[str, int]]) -> None:
    from dray.process.memory import collect_rarely

    await component.ready.wait()
    collect_rarely()
    _tell(Report(ready=True, made=made()))


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()
