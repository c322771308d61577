"""The HTTP protocol of a connection: uvicorn's, with limits on what a client may send before it is known.

A request's head may have only so many bytes and take only so long (`connections` sees to that), and must leave no doubt
where its body ends (`framing`). An upgrade to a protocol that is not spoken here is ignored. The parser would take the
body of such a request for the next request, so a new parser reads on from there.

What is written in one turn of the event loop, the head of an answer and its body, goes out in one piece: sending is
what an answer costs most.
The application gets, next to the peer's certificate, a way to cut the connection: a watcher that does not read cannot
be told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httptools

from dray.server import framing
from dray.server.connections import Connections
from dray.server.security.peer_protocol import PeerProtocol

MAX_HEAD_BYTES = 64 * 1024
Drain = Callable[[], Awaitable[None]]
ABORT_KEY = "dray.abort"
KNOWN_KEY = "dray.known"
TAKE_KEY = "dray.take"
PATIENCE_KEY = "dray.patience"
_TUNNELLED = (b"websocket", b"spdy/3.1")
_CHUNK = 64 * 1024
_MALFORMED = "Invalid HTTP request received:"


class Corked:
    """A transport that sends everything written in one turn of the event loop at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._send)
        self._pieces.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            if not self._transport.is_closing():
                self._transport.write(data)


class TakenConnection:
    """A client's connection after an upgrade: raw bytes, read on demand."""

    def __init__(self, transport: asyncio.Transport, reader: asyncio.StreamReader, drain: Drain) -> None:
        self._transport = transport
        self.reader = reader
        self.drain = drain

    def write(self, data: bytes) -> None:
        """Writes bytes; raises ConnectionResetError if the client has left.

        While nothing is read, nothing else notices that the client has left.
        """
        if self._transport.is_closing():
            raise ConnectionResetError("the client has left")
        self._transport.write(data)

    def close(self) -> None:
        """Closes the connection after everything written was sent."""
        self._transport.close()


class LimitedProtocol(PeerProtocol):
    """A connection with limits; `connections` reads its fields."""

    head_since = 0.0
    busy = False
    paused_since = 0.0
    unread = 0
    _head_bytes = 0
    _in_head = True
    _upgrading = False
    _early = b""
    _taken: asyncio.StreamReader | None = None
    _patient = False

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = Corked(transport, self.loop)  # type: ignore[assignment]
        self._uncorked = transport
        ways = {
            ABORT_KEY: transport.abort,
            KNOWN_KEY: self._recognise,
            TAKE_KEY: self._take,
            PATIENCE_KEY: self._be_patient,
        }
        self.app_state = {**self.app_state, **ways}
        self.head_since = self.loop.time()
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        if self._taken is not None:
            self._taken.feed_eof()
        super().connection_lost(exc)

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if self._is_tunnelled():
                # The application tunnels or refuses it. No other request can follow.
                self._upgrading, self._early = True, rest
                self.cycle.keep_alive = False
            else:
                self._read_on(rest)
        except httptools.HttpParserError as error:
            self._refuse(str(error.__context__ or error))

    def _is_tunnelled(self) -> bool:
        return self._get_upgrade() in _TUNNELLED

    def _read_on(self, rest: bytes) -> None:
        """Starts a new parser for the body, after the head of a request whose upgrade is ignored."""
        self.parser = httptools.HttpRequestParser(_ReadingOn(self))
        self.parser.feed_data(framing.body_only(self.headers))
        self._feed(rest)

    def _refuse(self, why: str) -> None:
        self._all.malformed(why)
        if self._may_answer():
            self.send_400_response(f"{_MALFORMED} {why}".encode("ascii", "replace").decode())
        else:
            self.transport.abort()

    def _may_answer(self) -> bool:
        """Returns True if an answer sent now belongs to the request that is being read, not to an earlier one."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return not (self._in_head or self.pipeline or self.cycle.response_started)

    def _take(self) -> TakenConnection:
        """Hands the connection to the caller; uvicorn sends nothing more on it."""
        self._taken = asyncio.StreamReader(limit=_CHUNK, loop=self.loop)
        self._taken.set_transport(self._uncorked)
        self._taken.feed_data(self._early)
        if self.cycle.disconnected:
            self._taken.feed_eof()
        self.cycle.disconnected = True
        return TakenConnection(self._uncorked, self._taken, self.flow.drain)

    def abort(self) -> None:
        self.transport.abort()

    def _be_patient(self) -> None:
        self._patient = True

    def _recognise(self) -> None:
        self._all.recognised(self)

    def data_received(self, data: bytes) -> None:
        if self._taken is not None:
            self._taken.feed_data(data)
            return
        if self._upgrading:
            self._early += data
            if len(self._early) > _CHUNK:
                self.transport.abort()
            return
        if self._in_head:
            if not self.head_since:
                self.head_since = self.loop.time()
            self._head_bytes += len(data)
            # The last piece may hold the beginning of the body, so it does not count.
            if self._head_bytes - len(data) > MAX_HEAD_BYTES:
                self.transport.abort()
                return
        self._feed(data)

    def on_headers_complete(self) -> None:
        if why := framing.problem(self.parser.get_http_version(), self.headers):
            raise ValueError(why)
        self._in_head, self.head_since, self.busy = False, 0.0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and not self._is_tunnelled():
            # The parser leaves out the body.
            return
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.busy = bool(self.pipeline)
        self._patient = False
        super().on_response_complete()

    def pause_writing(self) -> None:
        if self._taken is not None or self._patient:
            super().pause_writing()
            return
        self.paused_since = self.loop.time()
        self.unread = self.transport.get_write_buffer_size()
        self._all.paused(self)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._all.resumed(self)
        super().resume_writing()


def abort_of(scope: Mapping[str, Any]) -> Callable[[], None]:
    """Returns a function that cuts the connection of an ASGI scope; it does nothing without a connection."""
    abort = (scope.get("state") or {}).get(ABORT_KEY)
    return abort if callable(abort) else lambda: None


def take_of(scope: Mapping[str, Any]) -> Callable[[], TakenConnection] | None:
    """Returns a function that takes over the connection of an ASGI scope; None without a connection."""
    take = (scope.get("state") or {}).get(TAKE_KEY)
    return take if callable(take) else None


def be_patient(scope: Mapping[str, Any]) -> None:
    """Allows the client of an ASGI scope to read slowly, for answers that become ready bit by bit."""
    patience = (scope.get("state") or {}).get(PATIENCE_KEY)
    if patience is not None:
        patience()


def recognise(scope: Mapping[str, Any]) -> None:
    """Records that the client of an ASGI scope has authenticated."""
    known = (scope.get("state") or {}).get(KNOWN_KEY)
    if known is not None:
        known()


class _ReadingOn:
    """Parser callbacks after an ignored upgrade; the protocol knows the head already."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        self._protocol = protocol
        self._is_known = True
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete

    def on_message_begin(self) -> None:
        if not self._is_known:
            self._protocol.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_known:
            self._protocol.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_known:
            self._protocol.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_known:
            self._is_known = False
        else:
            self._protocol.on_headers_complete()
