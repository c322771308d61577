"""The client's transport to a server in the same process: requests are handed to the application, past HTTP.

What is checked, counted and noted is the same as over HTTP. Bodies and answers are JSON here too, so that no document
belongs to both sides; a stream is read straight from the server, which waits while the stream is not read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlencode

from dray.client import transport
from dray.client.errors import ConnectionFailed
from dray.server.application import Application
from dray.server.authorization import ADMIN, User
from dray.server.requests import Request, Response, Stream
from dray.server.streams import warning_headers

_logger = logging.getLogger(__name__)


class InProcessTransport:
    watch_seconds: float = 600

    def __init__(self, application: Application, user: User = ADMIN) -> None:
        self._application = application
        self._user = user

    async def send(self, request: transport.Request) -> transport.Answer:
        stream = await self.stream(request)
        body = stream.body if stream.body is not None else b"".join([chunk async for chunk in stream])
        return transport.Answer(stream.status, stream.headers, body)

    async def stream(self, request: transport.Request) -> InProcessStream:
        query = _query_string(tuple(request.query.items())) if request.query else ""
        asked = Request(request.method, unquote(request.path), query, request.headers, request.body, self._user)
        return InProcessStream(asked, await self._application.answer(asked))

    async def close(self) -> None:
        """Does nothing: the readers of streams close them."""


class InProcessStream:
    """An answer; `body` is the whole answer, unless it comes in chunks."""

    def __init__(self, request: Request, answer: Response | Stream) -> None:
        self._title = f"{request.method} {request.path}"
        self._chunks: AsyncGenerator[bytes, None] | None = None
        self.body: bytes | None = None
        self.headers: Mapping[str, str] = {}
        if isinstance(answer, Response):
            self.status = answer.code
            if answer.rest is None:
                self.body = answer.body
            else:
                self._chunks = answer.pieces()
            self.headers = {name.lower(): value for name, value in answer.headers.items()}
        else:
            self.status, self._chunks = 200, answer.chunks
        if request.warnings:
            warnings = ", ".join(value.decode() for _, value in warning_headers(request.warnings))
            self.headers = {**self.headers, "warning": warnings}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._chunks is None:
            yield self.body or b""
            return
        try:
            async for chunk in self._chunks:
                yield chunk
        except Exception as error:
            _logger.exception("%s failed", self._title)
            raise ConnectionFailed(f"the answer to {self._title} broke off", sent=True) from error

    async def close(self) -> None:
        if self._chunks is not None:
            await self._chunks.aclose()


# A client repeats the same few options.
@lru_cache(maxsize=256)
def _query_string(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)
