"""Streams to clients: sent piece by piece until they end, the client leaves, or it does not read for too long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from dray.server.requests import Stream

_log = logging.getLogger("dray.server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class Streams:
    """The streams that are open, with what it takes to end them all."""

    def __init__(self, *, stalled_seconds: float) -> None:
        self._stalled_seconds = stalled_seconds
        self._senders: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._senders)

    def end(self) -> None:
        """Ends every stream in good order: clients see a complete answer and ask again."""
        for sender in list(self._senders):
            sender.cancel()

    async def run(
        self, stream: Stream, headers: Headers, receive: Receive, send: Send, abort: Callable[[], None]
    ) -> None:
        gone = asyncio.ensure_future(_until_gone(receive))
        sender = asyncio.ensure_future(self._send(stream, headers, send))
        self._senders.add(sender)
        try:
            await asyncio.wait((gone, sender), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._senders.discard(sender)
            left = gone.done()
            for task in (gone, sender):
                task.cancel()
            _, ended = await asyncio.gather(gone, sender, return_exceptions=True)
            await stream.chunks.aclose()
        if left:
            return
        if isinstance(ended, Exception) and not isinstance(ended, TimeoutError):
            _log.error("an answer could not be sent to its end", exc_info=ended)
        if isinstance(ended, TimeoutError) or (ended is not None and not stream.endless):
            abort()
        else:
            await send({"type": "http.response.body", "body": b""})

    async def _send(self, stream: Stream, headers: Headers, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if stream.endless:
            # Clients wait for the headers before they trust the stream.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        async for chunk in stream.chunks:
            async with asyncio.timeout(self._stalled_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
