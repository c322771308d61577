"""The transport of a client: carries a request to an API server and brings back the answer.

There are three: HTTP, a pair of sockets between two processes (link.py), and a call into a server in the same process
(dray.server.inprocess). A transport tries once and tells what happened;
what an answer means, and whether to try again, is decided above it. Header names are in lower case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol

import msgspec


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    """Quoted, without the query."""
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    silence: float = 0
    """For a stream: how long it may bring nothing before it counts as broken; 0 for as long as it likes."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that comes in pieces. Whoever opened it closes it. Iteration raises ConnectionFailed if it breaks."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Both ways of sending raise ConnectionFailed when no answer comes."""

    watch_seconds: float
    """How long a watch may last at most; then it is asked for again, from where it came to."""

    async def send(self, request: Request) -> Answer: ...

    async def stream(self, request: Request) -> Stream: ...

    async def close(self) -> None: ...


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by name in lower case; the values of one that comes several times stand side by side."""
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
