"""The way to a server in the same process: its ASGI application is called, and no byte goes over a socket.

The application sees what it would see behind an HTTP server, so authentication, authorization and admission are the
same; `extensions` goes into the scope, where no HTTP client can put anything, to say who is calling. Answers come back
as the bytes the application sent. An application that offers `exchange` is asked by that instead, for answers that are
taken whole: it says the same with less ado. A stream hands over a few pieces at a time: an application whose reader is
slow waits in `send`, as it would for a socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote, urlencode

import msgspec

from dray.client.errors import ConnectionFailed
from dray.client.transport import Answer, Known, Request, joined

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Pairs = tuple[tuple[str, str], ...]

Exchange = Callable[
    [str, str, str, Mapping[str, str], bytes, Any, Mapping[str, Any]],
    Awaitable[tuple[int, dict[str, str], bytes] | None],
]
"""Method, path, query, headers, body, or what it says, and extensions in; status, headers and body out, or None: ask by
ASGI."""

_PIECES: Final = 16
_logger = logging.getLogger(__name__)


class InProcessTransport:
    watch_seconds: float = 600

    def __init__(
        self,
        application: Application,
        *,
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        self._application = application
        self._headers = _encoded(tuple((headers or {}).items()))
        self._extensions = dict(extensions or {})
        # A server of ours can be asked without the detour.
        self._exchange: Exchange | None = getattr(application, "exchange", None) if not headers else None
        self.known: Known | None = getattr(application, "written", None)
        self._streams: set[InProcessStream] = set()

    async def send(self, request: Request) -> Answer:
        if self._exchange is not None:
            query = _query_string(tuple(request.query.items())) if request.query else ""
            answered = await self._exchange(
                request.method,
                unquote(request.path),
                query,
                request.headers,
                request.body,
                request.document,
                self._extensions,
            )
            if answered is not None:
                return Answer(*answered)
        exchange = _Exchange(request.body if request.document is None else msgspec.json.encode(request.document))
        try:
            await self._application(self._scope(request), exchange.receive, exchange.send)
        except Exception:
            _logger.exception("%s %s failed", request.method, request.path)
            return Answer(500, {}, b"Internal Server Error")
        if not exchange.complete:
            raise ConnectionFailed(f"{request.method} {request.path} was left unanswered", sent=True)
        return Answer(exchange.status, exchange.headers, b"".join(exchange.pieces))

    async def stream(self, request: Request) -> InProcessStream:
        stream = InProcessStream(self._application, self._scope(request), request, self._streams.discard, self.known)
        self._streams.add(stream)
        try:
            await stream.opened()
        except BaseException:
            await stream.close()
            raise
        return stream

    async def close(self) -> None:
        for stream in list(self._streams):
            await stream.close()

    def _scope(self, request: Request) -> MutableMapping[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "https",
            "path": unquote(request.path),
            "raw_path": request.path.encode(),
            "query_string": _query_string(tuple(request.query.items())).encode() if request.query else b"",
            "root_path": "",
            "headers": [*self._headers, *_encoded(tuple(request.headers.items()))],
            "client": None,
            "server": None,
            "extensions": self._extensions,
        }


class _Exchange:
    """The two callables an ASGI application talks through, for an answer that is taken whole."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.complete = False

    async def receive(self) -> Message:
        if self._body is None:
            # The caller stays until it has its answer.
            await asyncio.get_running_loop().create_future()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _decoded(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self.pieces.append(message.get("body", b""))
            self.complete = not message.get("more_body", False)


class InProcessStream:
    def __init__(
        self,
        application: Application,
        scope: MutableMapping[str, Any],
        request: Request,
        forget: Callable[[InProcessStream], None],
        known: Known | None = None,
    ) -> None:
        self.known = known
        self.status = 0
        self.headers: dict[str, str] = {}
        self._title = f"{request.method} {request.path}"
        self._body: bytes | None = request.body
        self._forget = forget
        self._started = asyncio.Event()
        self._closing = asyncio.Event()
        # None stands for the end.
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_PIECES)
        self._broken = True
        self._task = asyncio.ensure_future(self._run(application, scope))

    async def opened(self) -> None:
        """Returns when the status is there."""
        await self._started.wait()
        if not self.status:
            raise ConnectionFailed(f"{self._title} was left unanswered", sent=True)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
        if self._broken:
            raise ConnectionFailed(f"the answer to {self._title} broke off", sent=True)

    async def close(self) -> None:
        self._forget(self)
        self._closing.set()
        self._task.cancel()
        await asyncio.wait([self._task])
        # Somebody may still be waiting for a piece.
        while not self._pieces.empty():
            self._pieces.get_nowait()
        self._pieces.put_nowait(None)

    async def _run(self, application: Application, scope: MutableMapping[str, Any]) -> None:
        try:
            await application(scope, self._receive, self._send)
        except Exception:
            _logger.exception("%s failed", self._title)
        finally:
            self._started.set()
        await self._pieces.put(None)

    async def _receive(self) -> Message:
        if self._body is None:
            await self._closing.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _decoded(message.get("headers", ()))
            self._started.set()
        elif message["type"] == "http.response.body":
            if piece := message.get("body", b""):
                await self._pieces.put(piece)
            self._broken = message.get("more_body", False)


# A client asks with the same few headers and options over and over.
@lru_cache(maxsize=256)
def _encoded(headers: Pairs) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers)


@lru_cache(maxsize=256)
def _query_string(query: Pairs) -> str:
    return urlencode(query)


def _decoded(headers: Any) -> dict[str, str]:
    return joined((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
