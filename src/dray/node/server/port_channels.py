"""Ports over the channels of a WebSocket: for port number n of the query, 2n carries data, 2n + 1 what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from dray.node.server.channels import left, messages
from dray.process.tasks import end_tasks

Copy = Callable[[int, Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]]], Awaitable[str]]
# Number of waiting messages per port; a message has 4 MiB at most.
_MOST_WAITING: Final = 2


class PortChannels:
    def __init__(self, socket: web.WebSocketResponse, ports: list[int], copy: Copy) -> None:
        self._socket = socket
        self._ports = ports
        self._copy = copy
        self._received: list[asyncio.Queue[bytes]] = [asyncio.Queue(_MOST_WAITING) for _ in ports]
        self._over = [False for _ in ports]

    async def run(self) -> None:
        """Forwards data until the client leaves, or the pod has closed every port."""
        for channel, port in enumerate(port for each in self._ports for port in (each, each)):
            await self._socket.send_bytes(bytes((channel,)) + port.to_bytes(2, "little"))
        receiving, leaving = asyncio.ensure_future(self._receive()), asyncio.ensure_future(left(self._socket))
        copying = asyncio.gather(*(self._forward(index, port) for index, port in enumerate(self._ports)))
        try:
            await asyncio.wait((receiving, leaving, copying), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks((receiving, leaving, copying))

    async def _forward(self, index: int, port: int) -> None:
        async def write(data: bytes) -> None:
            await self._socket.send_bytes(bytes((2 * index,)) + data)

        problem = await self._copy(port, self._received[index].get, write)
        self._over[index] = True
        # Empty the queue, so that a writer to it does not wait forever for the pod.
        while not self._received[index].empty():
            self._received[index].get_nowait()
        if problem:
            await self._socket.send_bytes(bytes((2 * index + 1,)) + problem.encode())

    async def _receive(self) -> None:
        async for message in messages(self._socket):
            index, kind = divmod(message[0], 2)
            if len(message) > 1 and kind == 0 and index < len(self._ports) and not self._over[index]:
                await self._received[index].put(message[1:])
