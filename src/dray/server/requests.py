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
    """`headers` are in lower case; `query` is what stands after the question mark, as it was sent."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    user: User = ADMIN
    # What a client is told beside the answer, as `Warning:` headers.
    warnings: list[str] = msgspec.field(default_factory=list)
    # What its body gives more than once, once it is read.
    repeated: list[str] = msgspec.field(default_factory=list)
    # The verb it came to, and why it is allowed: for the audit log.
    verb: str = ""
    reason: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    # Headers of whatever the answer will be.
    told: dict[str, str] = msgspec.field(default_factory=dict)

    def decoded_body(self) -> Any:
        """The body, read as JSON; raises what msgspec raises."""
        return msgspec.json.decode(self.body)


class Response(msgspec.Struct):
    """`rest` are the pieces that follow the body of a long answer, made as the client takes them.

    `final` is set for what is sent as it is, whatever else the client accepts.
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
            # Others have their turn while a long answer is made.
            await asyncio.sleep(0)
            yield piece

    def whole(self) -> bytes:
        if self.rest is not None:
            self.body, self.rest = b"".join((self.body, *self.rest)), None
        return self.body


class Stream(msgspec.Struct):
    """An answer in chunks as they come, closed by whoever sends it; `endless` if it may end at any of them.

    `from_node` is set for what the agent of a node sends, which is neither a watch nor a list. It may be compressed by
    an `encoding`.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str = JSON
    endless: bool = True
    from_node: bool = False
    encoding: str = ""


class NodeSide(Protocol):
    """The end of a tunnel at the node; `read` returns b"" at its end, `write` waits until there is room."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class Upgrade(msgspec.Struct):
    """A connection to a node that takes over that of the client; `head` is how the node agreed to it."""

    head: bytes
    node: NodeSide


Answer = Response | Stream | Upgrade


def code_of(answer: Answer) -> int:
    if isinstance(answer, Response):
        return answer.code
    return 101 if isinstance(answer, Upgrade) else 200


def document(body: Any, code: int = 200) -> Response:
    return Response(code, _encode(body))
