"""Connection with SPDY streams that the other side opens, over anything that carries bytes in order.

Kubernetes' clients use no flow control of SPDY's own: when a stream's reader is slow the connection waits for it, and
the connection beneath slows the client down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from dray.node.server.byte_queue import ByteQueue
from dray.node.server.spdy import frames
from dray.node.server.spdy.frames import Frame, FrameReader
from dray.node.server.spdy.headers import HeaderReader, HeaderWriter, ProtocolError

_MOST_STREAMS: Final = 512
_MOST_WAITING: Final = 8
_SYN_HEAD: Final = 10


class Stream:
    """One of the streams, in both directions."""

    def __init__(self, number: int, headers: dict[str, str], send: Callable[[bytes], Awaitable[None]]) -> None:
        self.number = number
        self.headers = headers
        self._send = send
        self._received = ByteQueue(_MOST_WAITING)
        self.finished = False
        """Nothing more is written, and nothing read."""
        self.reset = asyncio.Event()

    async def write(self, data: bytes) -> None:
        await self._send(frames.data(self.number, data))

    async def finish(self) -> None:
        """Nothing more is written."""
        if not self.finished:
            self.drop()
            await self._send(frames.data(self.number, b"", fin=True))

    async def read(self) -> bytes:
        """b"" at the end."""
        return await self._received.read()

    async def feed(self, data: bytes, *, fin: bool) -> None:
        for piece in ([data] if data else []) + ([b""] if fin else []):
            if not self.finished:
                await self._received.put(piece)

    def drop(self) -> None:
        """What nobody reads any more is dropped: it must not stop the other streams."""
        self.finished = True
        while not self._received.empty():
            self._received.get_nowait()


class Connection:
    """`send` sends bytes and may wait. `opened` is called with each stream, once it was accepted."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], opened: Callable[[Stream], None]) -> None:
        self._send = send
        self._opened = opened
        self._frames = FrameReader()
        self._reader = HeaderReader()
        self._writer = HeaderWriter()
        self._streams: dict[int, Stream] = {}

    async def run(self, received: AsyncIterator[bytes]) -> None:
        """Until the bytes end or the other side says goodbye; raises ProtocolError."""
        async for data in received:
            for frame in self._frames.feed(data):
                if frame.type == frames.GOAWAY:
                    return
                await self._take(frame)

    async def _take(self, frame: Frame) -> None:
        if frame.type == 0:
            if (stream := self._streams.get(frame.stream)) is not None:
                await stream.feed(frame.payload, fin=frame.fin)
        elif frame.type == frames.SYN_STREAM:
            await self._open(frame)
        elif frame.type == frames.RST_STREAM:
            if (stream := self._streams.pop(frames.number(frame.payload), None)) is not None:
                stream.reset.set()
        elif frame.type == frames.PING:
            await self._send(frames.control(frames.PING, frame.payload))

    async def _open(self, frame: Frame) -> None:
        number = frames.number(frame.payload)
        headers = self._reader.read(frame.payload[_SYN_HEAD:])
        if number in self._streams:
            raise ProtocolError(f"stream {number} is opened twice")
        if len(self._streams) >= _MOST_STREAMS:
            await self._send(frames.control(frames.RST_STREAM, _two(number, frames.CANCEL)))
            return
        stream = self._streams[number] = Stream(number, headers, self._send)
        await self._send(frames.control(frames.SYN_REPLY, number.to_bytes(4, "big") + self._writer.write({})))
        if frame.fin:
            await stream.feed(b"", fin=True)
        self._opened(stream)

    def forget(self, *streams: Stream) -> None:
        """Those that have come to their end."""
        for each in streams:
            each.drop()
            self._streams.pop(each.number, None)


def _two(first: int, second: int) -> bytes:
    return first.to_bytes(4, "big") + second.to_bytes(4, "big")
