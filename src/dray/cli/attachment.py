"""Attachment: this process's input, and on request its terminal, connected to a container.

Without a terminal only the input is connected: the output is copied from the log, which loses nothing when the
connection breaks. With a terminal the output comes over the same connection, since a log has only whole lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

from dray.client import interface
from dray.client.channels import Channel
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.transport import Request
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.cli.cluster import Cluster
    from dray.client.channels import Channels

_CHUNK: Final = 1 << 16
_STDIN: Final = 0


class Attachment:
    def __init__(self, cluster: Cluster, path: str, container: str, *, terminal: bool) -> None:
        query = {"container": container, "stdin": "true"}
        if terminal:
            query |= {"stdout": "true", "tty": "true"}
        self._cluster = cluster
        self._request = Request("GET", path, query)
        self._terminal = terminal

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keeps the streams connected while the caller waits for the container to end."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            await end_tasks([task])

    async def run(self) -> None:
        """Returns when the server closes the connection. A lost connection is told; the container goes on."""
        try:
            async with self._cluster.channels(self._request) as channels:
                if self._terminal:
                    await self._as_terminal(channels)
                else:
                    await _send_input(channels)
                    # The server closes the connection when the container ends.
                    async for _ in channels.output():
                        pass
        except (ApiError, ConnectionFailed) as error:
            sys.stderr.write(f"the input of the container is not connected: {error}\n")

    async def _as_terminal(self, channels: Channels) -> None:
        with _raw_terminal(), _resizing(channels):
            sending = asyncio.create_task(_send_input(channels))
            try:
                async for channel, data in channels.output():
                    output = sys.stderr if channel is Channel.ERRORS else sys.stdout
                    output.buffer.write(data)
                    output.buffer.flush()
            finally:
                await end_tasks([sending])


def path_of(namespace: str, pod: str) -> str:
    from dray.cli.pod_log import PODS

    return interface.item(PODS, namespace, pod, "attach")


async def _send_input(channels: Channels) -> None:
    async for data in _input():
        await channels.send_input(data)
    await channels.end_input()


async def _input() -> AsyncIterator[bytes]:
    """Yields this process's standard input.

    A thread reads it: an event loop cannot wait for files, and a reader that blocks must not keep the process.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(1)

    def read() -> None:
        with contextlib.suppress(RuntimeError, OSError, asyncio.CancelledError):
            while data := os.read(_STDIN, _CHUNK):
                asyncio.run_coroutine_threadsafe(chunks.put(data), loop).result()
            asyncio.run_coroutine_threadsafe(chunks.put(b""), loop)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while data := await chunks.get():
        yield data


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Passes every key on, Ctrl-C included."""
    if not os.isatty(_STDIN):
        yield
        return
    before = termios.tcgetattr(_STDIN)
    # What was typed already is kept.
    tty.setraw(_STDIN, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizing(channels: Channels) -> Iterator[None]:
    """Tells the container the size of the terminal, now and whenever it changes."""
    if not os.isatty(_STDIN):
        yield
        return
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def tell() -> None:
        size = os.get_terminal_size(_STDIN)
        task = loop.create_task(channels.resize(size.columns, size.lines))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    tell()
    loop.add_signal_handler(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
