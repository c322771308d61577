"""Streams of a command over SPDY, in the messages of a WebSocket: one for each of input, output, errors and so on.

The client opens them, each with its kind in the header `streamtype`; the command starts when all are there that the
request asks for. The stream `error` carries how the command ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Final

from aiohttp import web

from dray.api.objects import Object
from dray.node.server.channels import messages, take_size
from dray.node.server.spdy.connection import Connection, Stream
from dray.node.server.spdy.headers import ProtocolError

SPDY: Final = "SPDY/3.1+v4.channel.k8s.io"
_KINDS: Final = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "resize"}
_ALL_KINDS: Final = frozenset({"error", *_KINDS.values()})
_OUTPUTS: Final = {1: "stdout", 2: "stderr"}
_OPEN_SECONDS: Final = 30.0


class SpdyStreams:
    """Implements `Streams` of the runtime's contract over SPDY."""

    def __init__(self, socket: web.WebSocketResponse, wanted: frozenset[str]) -> None:
        self._socket = socket
        self._missing = {"error", *(_KINDS[name] for name in wanted)}
        self._streams: dict[str, Stream] = {}
        self._complete = asyncio.Event()
        self._connection = Connection(socket.send_bytes, self._take)
        self.resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(1)

    async def opened(self) -> None:
        """Waits for all requested streams. Raises TimeoutError if the client does not open them."""
        async with asyncio.timeout(_OPEN_SECONDS):
            await self._complete.wait()

    def _take(self, stream: Stream) -> None:
        kind = stream.headers.get("streamtype", "")
        if kind not in _ALL_KINDS or kind in self._streams:
            # Nothing reads this stream.
            stream.drop()
            return
        self._streams[kind] = stream
        self._missing.discard(kind)
        if not self._missing:
            self._complete.set()

    async def output(self, stream: int, data: bytes) -> None:
        if (found := self._streams.get(_OUTPUTS[stream])) is not None:
            await found.write(data)

    async def read_input(self) -> bytes:
        found = self._streams.get("stdin")
        return await found.read() if found is not None else b""

    async def receive(self) -> None:
        resizing = asyncio.ensure_future(self._resize())
        try:
            with contextlib.suppress(ProtocolError, ConnectionError):
                await self._connection.run(messages(self._socket))
        finally:
            resizing.cancel()
            await asyncio.gather(resizing, return_exceptions=True)

    async def _resize(self) -> None:
        await self._complete.wait()
        if (stream := self._streams.get("resize")) is not None:
            while data := await stream.read():
                for line in data.splitlines():
                    take_size(self.resizes, line)

    async def finish(self, status: Object) -> None:
        if (errors := self._streams.get("error")) is not None:
            await errors.write(json.dumps(status).encode())
        for stream in self._streams.values():
            await stream.finish()
