"""Watch events from a stream of JSON lines, each of bounded length."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Final

import msgspec

from dray.client.errors import ApiError, Garbled
from dray.client.interface import WatchEvent

# Several times the largest object an API server stores.
LONGEST_LINE: Final = 16 * 1024 * 1024
_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


async def lines(chunks: AsyncIterable[bytes], longest: int = LONGEST_LINE) -> AsyncGenerator[bytes, None]:
    """What stands after the last line break was cut off by a broken connection, and is left out."""
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
    """Raises ApiError for an ERROR event."""
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
