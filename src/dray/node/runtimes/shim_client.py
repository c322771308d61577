"""Connection of the agent to a shim: how its container ends, signals, and the streams of attached clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from dray.node.runtimes import unix_sockets
from dray.node.runtimes.interface import Streams
from dray.node.runtimes.shim import frames
from dray.process.tasks import end_tasks

_LAST_WORDS_SECONDS: Final = 1.0
_ACCEPT_SECONDS: Final = 2.0
_PAUSE: Final = 0.02


@contextlib.asynccontextmanager
async def connected(directory: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connects to the control socket in the directory. Raises OSError if no shim listens or accepts."""
    found = await _connection(directory)
    reader, writer = await asyncio.open_unix_connection(sock=found)
    try:
        yield reader, writer
    finally:
        await _close(writer)


async def _connection(directory: Path) -> socket.socket:
    end = time.monotonic() + _ACCEPT_SECONDS
    while True:
        try:
            return unix_sockets.connect(directory, "control.sock", socket.SOCK_STREAM)
        except BlockingIOError:
            # Many clients connect at the same time, or the shim is stopped.
            if time.monotonic() > end:
                raise
        await asyncio.sleep(_PAUSE)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes the connection after the written data was sent, or after a short timeout."""
    writer.close()
    try:
        async with asyncio.timeout(_LAST_WORDS_SECONDS):
            await writer.wait_closed()
    except OSError:
        pass
    finally:
        writer.transport.abort()


async def ended(directory: Path) -> None:
    """Waits until the shim has ended; returns at once if there is none."""
    with contextlib.suppress(OSError):
        async with connected(directory) as (reader, _):
            while await reader.read(65536):
                pass


async def send_signal(directory: Path, number: int) -> None:
    """Sends a signal to all processes of the container; does nothing if it has ended."""
    with contextlib.suppress(OSError):
        async with connected(directory) as (_, writer):
            writer.write(frames.frame(frames.SIGNAL, b"%d" % number))
            await writer.drain()


async def attach(directory: Path, streams: Streams, *, stdin: bool) -> None:
    """Copies the streams until the container ends or the client disconnects."""
    async with connected(directory) as (reader, writer):
        writer.write(frames.frame(frames.ATTACH))
        tasks = [asyncio.create_task(_copy_output(reader, streams))]
        extra = [asyncio.create_task(_copy_sizes(writer, streams))]
        if stdin:
            extra.append(asyncio.create_task(_copy_input(writer, streams)))
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_tasks((*tasks, *extra))


async def _copy_output(reader: asyncio.StreamReader, streams: Streams) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            letter, length = frames.head(await reader.readexactly(frames.HEAD_SIZE))
            data = await reader.readexactly(length)
            if letter == frames.EXIT:
                return
            await streams.output(1 if letter == frames.OUTPUT else 2, data)


async def _copy_input(writer: asyncio.StreamWriter, streams: Streams) -> None:
    while data := await streams.read_input():
        for start in range(0, len(data), 65536):
            writer.write(frames.frame(frames.INPUT, data[start : start + 65536]))
            await writer.drain()
    writer.write(frames.frame(frames.END_OF_INPUT))
    await writer.drain()


async def _copy_sizes(writer: asyncio.StreamWriter, streams: Streams) -> None:
    while True:
        columns, rows = await streams.resizes.get()
        writer.write(frames.frame(frames.RESIZE, json.dumps([columns, rows]).encode()))
        await writer.drain()


def read_json(path: Path) -> dict[str, Any] | None:
    """Returns the content of a JSON file; None if it is missing or cannot be parsed."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
