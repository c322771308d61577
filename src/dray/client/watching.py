"""A watch that survives its connections.

Every event, bookmarks included, moves the resource version; a connection that ends, breaks, times out or brings garbage
is followed by the next one from there. Servers end a watch after the time the client asks for, with a bookmark
shortly before; asking for a different time at each connection keeps many clients from coming back at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from typing import Any, Final

import msgspec

from dray.client.errors import ApiError, ConnectionFailed, Garbled
from dray.client.interface import WatchEvent
from dray.client.retries import Retries, retry_after
from dray.client.transport import Request, Transport

# Share of the longest time that is random, and the tolerance for the end of a connection.
_SPREAD: Final = 0.25
_GRACE: Final = 0.25
_LONGEST_REFUSAL: Final = 1024 * 1024
# Several times the size of the largest object that an API server stores.
LONGEST_LINE: Final = 16 * 1024 * 1024
_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class Watching:
    def __init__(self, transport: Transport, retries: Retries, path: str, query: dict[str, str], position: str) -> None:
        self._transport = transport
        self._retries = retries
        self._path = path
        self._query = query
        self.position = position

    async def events(self) -> AsyncGenerator[WatchEvent, None]:
        """Yields events, without end. Raises ApiError if the server refuses for good."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            # A connection that brought nothing and ended early is a failure, so that it is not reopened in a tight
            # loop.
            failures += 1
            asked = 0.0
            request, seconds = self._request()
            due = loop.time() + seconds / 2
            try:
                async with aclosing(self._connection(request)) as events:
                    async for event in events:
                        failures = 0
                        self.position = event.resource_version or self.position
                        yield event
                if loop.time() >= due:
                    failures = 0
            except (ConnectionFailed, Garbled):
                failures = max(failures, 1)
            except ApiError as error:
                if error.is_ahead or not (error.is_server_fault or error.is_too_many_requests):
                    raise
                failures = max(failures, 1)
                asked = error.retry_after
            if failures:
                await self._retries.pause(failures, asked)

    async def _connection(self, request: Request) -> AsyncGenerator[WatchEvent, None]:
        stream = await self._transport.stream(request)
        try:
            if stream.status != 200:
                wait = retry_after(stream.headers.get("retry-after", ""))
                raise ApiError.from_answer(stream.status, await _refusal(stream), wait)
            async with aclosing(lines(stream, LONGEST_LINE)) as texts:
                async for line in texts:
                    yield watch_event(line)
        finally:
            await stream.close()

    def _request(self) -> tuple[Request, int]:
        """Returns the request and its duration in seconds."""
        longest = self._transport.watch_seconds
        seconds = max(1, int(longest * (1 - _SPREAD * self._retries.random())))
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **self._query}
        if self.position:
            query["resourceVersion"] = self.position
        silence = seconds + longest * _GRACE
        return Request("GET", self._path, query, {"accept": "application/json"}, silence=silence), seconds


async def _refusal(stream: AsyncIterable[bytes]) -> bytes:
    body = b""
    async for chunk in stream:
        body += chunk
        if len(body) > _LONGEST_REFUSAL:
            break
    return body


async def lines(chunks: AsyncIterable[bytes], longest: int = LONGEST_LINE) -> AsyncGenerator[bytes, None]:
    """Yields complete lines; a line without line break was cut off by a broken connection, and is dropped."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, *tail = chunk.split(b"\n")
        rest.append(head)
        size += len(head)
        if size > longest:
            raise Garbled(f"a line of the watch is longer than {longest} bytes")
        if not tail:
            continue
        rest, complete = [tail[-1]], [b"".join(rest), *tail[:-1]]
        size = len(rest[0])
        for line in complete:
            if line:
                yield line


def watch_event(line: bytes) -> WatchEvent:
    """Decodes a watch event. Raises ApiError for an ERROR event."""
    try:
        document: Any = msgspec.json.decode(line)
        kind, body = document["type"], document["object"]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError) as error:
        raise Garbled(f"not a watch event: {line[:200]!r}") from error
    if isinstance(body, dict):
        if kind == "ERROR":
            raise ApiError.from_status(body)
        if kind in _TYPES:
            return WatchEvent(kind, body)
    raise Garbled(f"not a watch event: {line[:200]!r}")
