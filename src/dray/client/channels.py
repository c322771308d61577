"""The streams of a container over one WebSocket, as Kubernetes' remote command protocol numbers them.

The first byte of a message is its channel. In `v5.channel.k8s.io` the message [255, n] says that channel n has ended;
servers before Kubernetes 1.30 speak `v4.channel.k8s.io`, which cannot say so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Final

import aiohttp

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class Channel(IntEnum):
    INPUT = 0
    OUTPUT = 1
    ERRORS = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255


class Channels:
    """The client's end of the connection to a container."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send_input(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes((Channel.INPUT,)) + data)

    async def end_input(self) -> None:
        """Tells the container that its input has ended, if the server understands that."""
        if self._socket.protocol == PROTOCOLS[0]:
            await self._socket.send_bytes(bytes((Channel.CLOSE, Channel.INPUT)))

    async def resize(self, columns: int, rows: int) -> None:
        size = json.dumps({"Width": columns, "Height": rows})
        await self._socket.send_bytes(bytes((Channel.RESIZE,)) + size.encode())

    async def output(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """Yields what the container writes, until the server closes the connection."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY and len(message.data) > 1:
                channel, data = message.data[0], message.data[1:]
                if channel in (Channel.OUTPUT, Channel.ERRORS):
                    yield Channel(channel), data
