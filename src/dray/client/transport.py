"""What carries a request to an API server and brings back the answer.

Two ways exist: HTTP, and a call into a server in the same process. A transport tries once and tells what happened;
what an answer means, and whether to try again, is decided above it. Header names are in lower case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Quoted, without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    silence: float = 0
    """For a stream: how long it may bring nothing before it counts as broken; 0 for as long as it likes."""


@dataclass(frozen=True, slots=True)
class Answer:
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

    async def send(self, request: Request) -> Answer: ...

    async def stream(self, request: Request) -> Stream: ...

    async def close(self) -> None: ...
