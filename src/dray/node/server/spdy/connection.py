"""Connection with SPDY streams that the other side opens, over anything that carries bytes in order.

Kubernetes' clients use no flow control of SPDY's own: when a stream's reader is slow, or too many bytes wait in all
streams together, the connection waits, and the connection beneath slows the client down.
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
_MOST_BYTES: Final = 4 << 20
_SYN_HEAD: Final = 10


class Stream:
    """One stream of a connection, in both directions."""

    def __init__(
        self,
        number: int,
        headers: dict[str, str],
        send: Callable[[bytes], Awaitable[None]],
        taken: Callable[[int], None] = lambda size: None,
    ) -> None:
        """`taken` gets the sizes of received data that was read or dropped."""
        self.number = number
        self.headers = headers
        self._send = send
        self._received = ByteQueue(_MOST_WAITING, taken)
        self.finished = False
        """True once nothing more is written or read."""
        self.reset = asyncio.Event()

    async def write(self, data: bytes) -> None:
        await self._send(frames.data(self.number, data))

    async def finish(self) -> None:
        """Ends the output of the stream."""
        if not self.finished:
            self.drop()
            await self._send(frames.data(self.number, b"", fin=True))

    async def read(self) -> bytes:
        """Returns the next data; b"" at the end."""
        return await self._received.read()

    async def feed(self, data: bytes, *, fin: bool) -> None:
        for piece in ([data] if data else []) + ([b""] if fin else []):
            if not self.finished:
                await self._received.put(piece)
        if self.finished:
            # The stream was dropped while a piece waited for room.
            self.drop()

    def drop(self) -> None:
        """Discards unread and later data, so that they do not block other streams. Readers get end of file."""
        self.finished = True
        self._received.end()


class Connection:
    """Serves the streams of a connection.

    `send` sends bytes and may wait. `opened` is called with each accepted stream, `was_reset` with each stream that the
    other side resets.
    """

    def __init__(
        self,
        send: Callable[[bytes], Awaitable[None]],
        opened: Callable[[Stream], None],
        was_reset: Callable[[Stream], None] = lambda stream: None,
    ) -> None:
        self._send = send
        self._opened = opened
        self._was_reset = was_reset
        self._unread = 0
        """Unread bytes of all streams together."""
        self._read = asyncio.Event()
        self._frames = FrameReader()
        self._reader = HeaderReader()
        self._writer = HeaderWriter()
        self._streams: dict[int, Stream] = {}

    async def run(self, received: AsyncIterator[bytes]) -> None:
        """Handles received bytes until they end or the other side sends GOAWAY; raises ProtocolError."""
        try:
            async for data in received:
                for frame in self._frames.feed(data):
                    if frame.type == frames.GOAWAY:
                        return
                    await self._take(frame)
        finally:
            self.forget(*self._streams.values())

    async def _take(self, frame: Frame) -> None:
        if frame.type == 0:
            if (stream := self._streams.get(frame.stream)) is not None and not stream.finished:
                await self._feed(stream, frame)
        elif frame.type == frames.SYN_STREAM:
            await self._open(frame)
        elif frame.type == frames.RST_STREAM:
            if (stream := self._streams.pop(frames.number(frame.payload), None)) is not None:
                stream.drop()
                stream.reset.set()
                self._was_reset(stream)
        elif frame.type == frames.PING:
            await self._send(frames.control(frames.PING, frame.payload))

    async def _feed(self, stream: Stream, frame: Frame) -> None:
        while self._unread >= _MOST_BYTES and not stream.finished:
            self._read.clear()
            await self._read.wait()
        if not stream.finished:
            self._unread += len(frame.payload)
            await stream.feed(frame.payload, fin=frame.fin)

    def _taken(self, size: int) -> None:
        self._unread -= size
        self._read.set()

    async def reset(self, stream: Stream) -> None:
        """Resets a stream towards the other side."""
        self.forget(stream)
        await self._send(frames.control(frames.RST_STREAM, _two(stream.number, frames.CANCEL)))

    async def _open(self, frame: Frame) -> None:
        number = frames.number(frame.payload)
        headers = self._reader.read(frame.payload[_SYN_HEAD:])
        if number in self._streams:
            raise ProtocolError(f"stream {number} is opened twice")
        if len(self._streams) >= _MOST_STREAMS:
            await self._send(frames.control(frames.RST_STREAM, _two(number, frames.CANCEL)))
            return
        stream = self._streams[number] = Stream(number, headers, self._send, self._taken)
        await self._send(frames.control(frames.SYN_REPLY, number.to_bytes(4, "big") + self._writer.write({})))
        if frame.fin:
            await stream.feed(b"", fin=True)
        self._opened(stream)

    def forget(self, *streams: Stream) -> None:
        """Drops streams that have ended."""
        for stream in streams:
            stream.drop()
            self._streams.pop(stream.number, None)


def _two(first: int, second: int) -> bytes:
    return first.to_bytes(4, "big") + second.to_bytes(4, "big")
