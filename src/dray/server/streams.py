"""Streams to clients: sent piece by piece until they end, the client leaves, or it does not read for too long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from dray.process.tasks import end_tasks
from dray.server.http_protocol import TakenConnection
from dray.server.requests import Stream, Upgrade

_log = logging.getLogger("dray.server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
IDLE_SECONDS: Final = 4 * 3600.0
_CHUNK: Final = 64 * 1024
_MOST_LETTERS = 4096
_SHORTENED = 256
# HTTP clients commonly accept a hundred headers, and an answer has others.
_MOST = 64


class _Open:
    """Open streams, and how to end them all."""

    def __init__(self) -> None:
        self._open: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        for task in list(self._open):
            task.cancel()


class Streams(_Open):
    """Streamed answers. `end` completes them, so that clients see a complete answer and ask again."""

    def __init__(self, *, stalled_seconds: float) -> None:
        super().__init__()
        self._stalled_seconds = stalled_seconds

    async def run(
        self, stream: Stream, headers: Headers, receive: Receive, send: Send, abort: Callable[[], None]
    ) -> None:
        gone = asyncio.ensure_future(_until_gone(receive))
        sender = asyncio.ensure_future(self._send(stream, headers, send))
        self._open.add(sender)
        try:
            await asyncio.wait((gone, sender), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(sender)
            left = gone.done()
            for task in (gone, sender):
                task.cancel()
            _, ended = await asyncio.gather(gone, sender, return_exceptions=True)
            await stream.chunks.aclose()
        if left:
            return
        if isinstance(ended, Exception) and not isinstance(ended, TimeoutError):
            _log.error("an answer could not be sent to its end", exc_info=ended)
        if isinstance(ended, TimeoutError) or (ended is not None and not stream.endless):
            abort()
        else:
            await send({"type": "http.response.body", "body": b""})

    async def _send(self, stream: Stream, headers: Headers, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if stream.endless:
            # Clients wait for the headers before they trust the stream.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        async for chunk in stream.chunks:
            async with asyncio.timeout(self._stalled_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            # The next chunk may take long to arrive.
            del chunk


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Tunnels(_Open):
    """Copies bytes between a client and a node in both directions after an upgrade, until one side ends.

    A side is read only as fast as the other one takes the bytes, so a tunnel holds a few pieces. A tunnel that is idle
    for hours is cut, as in Kubernetes.
    """

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__()
        self._idle_seconds = idle_seconds

    async def run(self, upgrade: Upgrade, client: TakenConnection) -> None:
        """Copies until one side ends; then closes both."""
        tunnel = asyncio.ensure_future(_Tunnel(upgrade, client).run(self._idle_seconds))
        self._open.add(tunnel)
        try:
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await tunnel
        finally:
            tunnel.cancel()
            self._open.discard(tunnel)
            client.close()
            await upgrade.node.close()


class _Tunnel:
    def __init__(self, upgrade: Upgrade, client: TakenConnection) -> None:
        self._upgrade = upgrade
        self._client = client
        self._moved = 0.0

    async def run(self, idle_seconds: float) -> None:
        tasks = [asyncio.ensure_future(side) for side in (self._to_client(), self._to_node(), self._idle(idle_seconds))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end_tasks(tasks)

    async def _to_client(self) -> None:
        self._client.write(self._upgrade.head)
        while data := await self._upgrade.node.read():
            self._moved = asyncio.get_running_loop().time()
            self._client.write(data)
            await self._client.drain()

    async def _to_node(self) -> None:
        while data := await self._client.reader.read(_CHUNK):
            self._moved = asyncio.get_running_loop().time()
            await self._upgrade.node.write(data)

    async def _idle(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._moved = loop.time()
        while (left := self._moved + seconds - loop.time()) > 0:
            await asyncio.sleep(left)


def warning_headers(texts: Iterable[str]) -> Headers:
    """Returns warning headers within the limits of clients, which ignore too many or too long ones.

    If all together are too long, each text is shortened, and those that do not fit are left out.
    """
    kept = list(dict.fromkeys(texts))
    if sum(map(len, kept)) > _MOST_LETTERS:
        kept = list(dict.fromkeys(text[:_SHORTENED] for text in kept))
    found: Headers = []
    room = _MOST_LETTERS
    for text in kept[:_MOST]:
        room -= len(text)
        if room < 0:
            break
        found.append((b"warning", _header(text)))
    return found


def _header(text: str) -> bytes:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
