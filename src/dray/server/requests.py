"""A request and its answer, whether they come over HTTP or from within the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

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
    # The verb it came to, and why it is allowed: for the audit log.
    verb: str = ""
    reason: str = ""
    # What the body says, from a caller in the process who has no need to write it down; it is not to be changed.
    document: Any = None

    @property
    def size(self) -> int:
        """Of what it says, as JSON in bytes."""
        return len(self.body) if self.document is None else len(_encode(self.document))

    def said(self) -> Any:
        """The body, read as JSON; raises what msgspec raises."""
        return msgspec.json.decode(self.body) if self.document is None else self.document


class Response(msgspec.Struct):
    code: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Stream(msgspec.Struct):
    """An answer without end: chunks as they come; closed by whoever sends it."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON


Answer = Response | Stream


def document(body: Any, code: int = 200) -> Response:
    return Response(code, _encode(body))
