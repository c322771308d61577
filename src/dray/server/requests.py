"""A request and its answer, whether they come over HTTP or from within the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from itertools import chain
from typing import Any, Protocol

import msgspec

from dray.server.authorization import ADMIN, User

JSON = "application/json"

_encode = msgspec.json.Encoder().encode


class Request(msgspec.Struct):
    """A request; `headers` are in lower case, `query` is the part after the question mark, not decoded."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    user: User = ADMIN
    # Warnings for the client, sent as `Warning:` headers.
    warnings: list[str] = msgspec.field(default_factory=list)
    # Duplicate fields of its body, once it is read.
    repeated: list[str] = msgspec.field(default_factory=list)
    # The verb, and why it is allowed: for the audit log.
    verb: str = ""
    reason: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    # Headers of the answer, whatever it is.
    told: dict[str, str] = msgspec.field(default_factory=dict)

    def decoded_body(self) -> Any:
        """Decodes the body as JSON; raises msgspec's errors."""
        return msgspec.json.decode(self.body)


class Response(msgspec.Struct):
    """An answer; `rest` has the further pieces of a long body, made as the client reads them.

    `final` answers are sent as they are, whatever the client accepts.
    """

    code: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    rest: Iterator[bytes] | None = None
    final: bool = False

    @classmethod
    def of(cls, pieces: Iterator[bytes]) -> Response:
        first = next(pieces)
        second = next(pieces, None)
        return cls(200, first, rest=None if second is None else chain((second,), pieces))

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self.body
        for piece in self.rest or ():
            # Let other tasks run while a long answer is made.
            await asyncio.sleep(0)
            yield piece

    def whole(self) -> bytes:
        if self.rest is not None:
            self.body, self.rest = b"".join((self.body, *self.rest)), None
        return self.body


class Stream(msgspec.Struct):
    """An answer in chunks, closed by its sender; `endless` if it may end after any of them.

    `from_node` is set for answers of a node's agent, which are neither watches nor lists. It may be compressed by an
    `encoding`.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str = JSON
    endless: bool = True
    from_node: bool = False
    encoding: str = ""


class NodeSide(Protocol):
    """The node's end of a tunnel; `read` returns b"" at its end, `write` waits until there is room."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class Upgrade(msgspec.Struct):
    """A connection to a node that takes over the client's; `head` is the node's answer to the upgrade."""

    head: bytes
    node: NodeSide


Answer = Response | Stream | Upgrade


def code_of(answer: Answer) -> int:
    if isinstance(answer, Response):
        return answer.code
    return 101 if isinstance(answer, Upgrade) else 200


def document(body: Any, code: int = 200) -> Response:
    return Response(code, _encode(body))
