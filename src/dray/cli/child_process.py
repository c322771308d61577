"""A component as a child of `dray up`: see `dray.control_plane.child`, which starts it and serves its requests.

What it is to do comes pickled on its input, its end of the link as an argument; it reports on its output.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dray.cli.serving import log_to_stderr, run, stopping
from dray.process.memory import loading
from dray.process.parent import die_with_parent, maker_of

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport
    from dray.control_plane.child import Child, Report


class Component(Protocol):
    ready: asyncio.Event

    async def run(self) -> None: ...


def child(module: str, called: str) -> Child:
    """The process that calls `main` of the module with the number of its end of the link. What it has to do is told
    later, by `orders`."""
    from dray.control_plane.child import Child

    return Child(("-c", f"import sys; from {module} import main; main(int(sys.argv[1]))"), called=called)


def main(
    work: Callable[[Any, socket.socket], Coroutine[Any, Any, int]], end: int, *, name: str, load: Callable[[], None]
) -> None:
    """`work` gets the orders and the end of the link; `load` is called before the orders are there. The name is that
    which `ps -o comm` shows."""
    link = socket.socket(fileno=end)
    # However the other one ends. Pods have processes of their own, which go on.
    die_with_parent(maker_of(link))
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)
    log_to_stderr()
    # An interrupt from the keyboard reaches both processes; the other one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with loading():
        load()
    orders = sys.stdin.buffer.read()
    if not orders:
        # The other one has ended before there was anything to do.
        sys.exit(0)
    sys.exit(run(work(pickle.loads(orders), link)))


async def work(
    make: Callable[[ApiClient], Component],
    end: socket.socket,
    logger: logging.Logger,
    made: Callable[[], Mapping[str, int]] = dict,
) -> int:
    """Runs the component until the parent says stop or is gone; `made` counts what it has made once it is ready."""
    from dray.client.api import ApiClient
    from dray.client.link import LinkTransport
    from dray.control_plane.child import Report

    transport = await LinkTransport.connect(end)
    try:
        component = make(ApiClient(transport))
    except Exception as error:
        # It would not be otherwise the next time.
        tell(Report(refused=f"{type(error).__name__}: {error}"))
        await transport.close()
        return 2
    return await until_stopped(component, _report(component, made), transport, logger)


async def until_stopped(
    component: Component, reporting: Coroutine[Any, Any, None], transport: LinkTransport, logger: logging.Logger
) -> int:
    """Runs both until the parent says stop or is gone, or the component ends; closes the transport."""
    stop = stopping(signal.SIGTERM)
    try:
        working = asyncio.create_task(component.run())
        others = [asyncio.create_task(coroutine) for coroutine in (reporting, stop.wait(), transport.lost.wait())]
        await asyncio.wait((working, *others[1:]), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, *others):
            task.cancel()
        (ended, *_) = await asyncio.gather(working, *others, return_exceptions=True)
    finally:
        await transport.close()
    if isinstance(ended, Exception):
        logger.error("%s failed", type(component).__name__, exc_info=ended)
        return 1
    return 0


async def _report(component: Component, made: Callable[[], Mapping[str, int]]) -> None:
    from dray.control_plane.child import Report
    from dray.process.memory import collect_rarely

    await component.ready.wait()
    collect_rarely()
    tell(Report(ready=True, made=made()))


def tell(report: Report) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()
