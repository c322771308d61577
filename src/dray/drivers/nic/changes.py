"""Changes of interfaces, addresses and routes, as the kernel tells of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

# Groups of the kernel: interfaces, addresses and routes of both families.
_GROUPS: Final = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_NETLINK_ROUTE: Final = 0
_BUFFER: Final = 1 << 16


class Changes:
    """`await changes.next(seconds)` returns when something has changed since, or after that time."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_ROUTE)
        self._socket.bind((0, _GROUPS))
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    async def next(self, seconds: float) -> bool:
        """Whether something has changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed

    def _read(self) -> None:
        self._changed.set()
        # That something was lost is a change as well.
        with contextlib.suppress(BlockingIOError, OSError):
            while self._socket.recv(_BUFFER):
                pass
