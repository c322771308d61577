"""Byte queue: bytes that a client has sent on a stream and that are not read yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ByteQueue(asyncio.Queue[bytes]):
    """A queue of received bytes; b"" is the end of the stream. `taken` gets the size of each piece that is read."""

    def __init__(self, most_pieces: int, taken: Callable[[int], None] = lambda size: None) -> None:
        super().__init__(most_pieces)
        self._taken = taken
        self._is_at_end = False

    async def read(self) -> bytes:
        """Returns the next piece; b"" at the end, however often it is called."""
        if self._is_at_end:
            return b""
        data = await self.get()
        self._is_at_end = not data
        return data

    def end(self) -> None:
        """Discards all pieces. Readers get end of file."""
        while not self.empty():
            self.get_nowait()
        self.put_nowait(b"")

    def _get(self) -> bytes:
        data: bytes = super()._get()
        self._taken(len(data))
        return data
