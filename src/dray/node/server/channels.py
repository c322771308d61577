"""Channels: the streams of a command over one WebSocket, as Kubernetes' remote command protocol numbers them.

The first byte of a message is its channel: 0 input, 1 output, 2 errors, 3 how it ended, 4 the size of the terminal. In
`v5.channel.k8s.io` a message [255, n] says that channel n has ended. Input that the command does not take is not read
from the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import WSMsgType, web

from dray.api.objects import Object
from dray.node.server.byte_queue import ByteQueue

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_INPUT, _OUTPUT, _ERRORS, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_MOST_MESSAGES: Final = 4
_LONGEST_MESSAGE: Final = 4 << 20
_PING_SECONDS: Final = 10.0


async def upgraded(request: web.Request, protocols: tuple[str, ...]) -> web.WebSocketResponse:
    """Upgrades a request to a WebSocket. Answers 400 to a client that supports none of the protocols."""
    socket = web.WebSocketResponse(protocols=protocols, compress=False, max_msg_size=_LONGEST_MESSAGE)
    ready = socket.can_prepare(request)
    if not ready.ok or ready.protocol is None:
        spoken = request.headers.get("Sec-WebSocket-Protocol") or request.headers.get("Upgrade") or "HTTP"
        text = f"unable to negotiate a protocol: the client offers {spoken}, the node speaks {', '.join(protocols)}"
        raise web.HTTPBadRequest(text=f"{text} over WebSocket")
    await socket.prepare(request)
    return socket


async def messages(socket: web.WebSocketResponse) -> AsyncIterator[bytes]:
    """Yields non-empty messages until the client leaves. Some clients send data as text messages."""
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data:
            yield message.data
        elif message.type is WSMsgType.TEXT and message.data:
            yield message.data.encode()


async def left(socket: web.WebSocketResponse) -> None:
    """Waits until the client has left, even while nothing is read from it, by sending pings.

    The machine of a client that has ended answers a ping with a reset of the connection.
    """
    with contextlib.suppress(ConnectionError):
        while True:
            await asyncio.sleep(_PING_SECONDS)
            await socket.ping()


class Channels:
    """Implements `Streams` of the runtime's contract over channels."""

    def __init__(self, socket: web.WebSocketResponse, wanted: frozenset[str]) -> None:
        self._socket = socket
        self._wanted = [number for number, name in ((_OUTPUT, "output"), (_ERRORS, "error")) if name in wanted]
        self._input = ByteQueue(_MOST_MESSAGES)
        self.resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(1)

    async def opened(self) -> None:
        """Returns at once: all channels exist from the beginning."""

    async def output(self, stream: int, data: bytes) -> None:
        if stream in self._wanted:
            await self._socket.send_bytes(bytes((stream,)) + data)

    async def read_input(self) -> bytes:
        return await self._input.read()

    async def finish(self, status: Object) -> None:
        await self._socket.send_bytes(bytes((_STATUS,)) + json.dumps(status).encode())

    async def receive(self) -> None:
        """Receives messages until the client leaves."""
        async for message in messages(self._socket):
            channel, data = message[0], message[1:]
            if channel == _INPUT and data:
                await self._input.put(data)
            elif channel == _CLOSE and data == bytes((_INPUT,)):
                await self._input.put(b"")
            elif channel == _RESIZE:
                take_size(self.resizes, data)


def take_size(resizes: asyncio.Queue[tuple[int, int]], data: bytes) -> None:
    """Puts a terminal size into the queue; replaces a size that was not read yet."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        size = json.loads(data)
        columns, rows = int(size["Width"]), int(size["Height"])
        if 0 < columns < 65536 and 0 < rows < 65536:
            if resizes.full():
                resizes.get_nowait()
            resizes.put_nowait((columns, rows))
