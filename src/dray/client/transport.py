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
    """The quoted path, without the query."""
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    silence: float = 0
    """Timeout in seconds for the next piece of a stream; 0 for none."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A streamed answer; its opener must close it. Iteration raises ConnectionFailed if it breaks."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Sends requests; raises ConnectionFailed if there is no answer."""

    watch_seconds: float
    """Longest duration of a watch, which is then resumed by a new request."""

    async def send(self, request: Request) -> Answer: ...

    async def stream(self, request: Request) -> Stream: ...

    async def close(self) -> None: ...


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns headers by lower-case name; repeated values are joined."""
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
