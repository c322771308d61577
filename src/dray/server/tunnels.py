"""Tunnels between a client and a node: bytes in both directions after an upgrade, until one side ends.

What one side does not take is not read from the other: a tunnel holds a few pieces, however slow a client is. A tunnel
on which nothing moves for hours is cut, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from dray.server.http_protocol import TakenConnection
from dray.server.requests import Upgrade

IDLE_SECONDS: Final = 4 * 3600.0
_CHUNK: Final = 64 * 1024


class Tunnels:
    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._open: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        for each in list(self._open):
            each.cancel()

    async def run(self, upgrade: Upgrade, client: TakenConnection) -> None:
        """Until one side ends; both are closed then."""
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
        tasks = [asyncio.ensure_future(each) for each in (self._to_client(), self._to_node(), self._idle(idle_seconds))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
