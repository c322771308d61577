"""Byte queue: what a client has sent on a stream and nobody has read yet."""

from __future__ import annotations

import asyncio


class ByteQueue(asyncio.Queue[bytes]):
    """An empty piece is the end of the stream."""

    _is_at_end = False

    async def read(self) -> bytes:
        """The next piece; b"" at the end, however often it is asked for."""
        if self._is_at_end:
            return b""
        data = await self.get()
        self._is_at_end = not data
        return data
