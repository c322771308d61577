"""Cuts a stream into lines of JSON, each of bounded length, and reads watch events from them.

Several watches of one process mostly read the same lines at about the same time; the event that a line was read as is
shared by all of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from dray.client.errors import ApiError, Garbled
from dray.client.interface import WatchEvent
from dray.client.transport import Known

# Several times the largest object an API server stores.
LONGEST_LINE: Final = 16 * 1024 * 1024
_LONGEST_SHARED: Final = 32 * 1024
_SHARED: Final = 256
_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
# How events begin whose object was just written.
_PREFIXES: Final = tuple((kind, b'{"type":"%b","object":' % kind.encode()) for kind in ("MODIFIED", "ADDED"))


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


def watch_event(line: bytes, known: Known | None = None) -> WatchEvent:
    """Raises ApiError for an ERROR event. What it gives may be shared, and must not be changed."""
    if known is not None:
        for kind, prefix in _PREFIXES:
            if line.startswith(prefix) and (document := known(line[len(prefix) : -1])) is not None:
                return WatchEvent(kind, document)
    return _shared_event(line) if len(line) <= _LONGEST_SHARED else _read_event(line)


def _read_event(line: bytes) -> WatchEvent:
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


_shared_event = lru_cache(maxsize=_SHARED)(_read_event)
