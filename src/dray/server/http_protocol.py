"""The HTTP protocol of a connection: uvicorn's, with limits on what a client may send before it is known.

A request's head may have only so many bytes and take only so long (`connections` sees to that). What is written in one
turn of the event loop, the head of an answer and its body, goes out in one piece: sending is what an answer costs most.
The application gets, next to the peer's certificate, a way to cut the connection: a watcher that does not read cannot
be told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dray.server.connections import Connections
from dray.server.security.peer import PeerProtocol

MAX_HEAD_BYTES = 64 * 1024
ABORT_KEY = "dray.abort"
KNOWN_KEY = "dray.known"


class Corked:
    """A transport that sends at the end of the turn what was written in it."""

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


class LimitedProtocol(PeerProtocol):
    """One of `connections`, whose fields those look at."""

    head_since = 0.0
    busy = False
    paused_since = 0.0
    unread = 0
    _head_bytes = 0
    _in_head = True

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = Corked(transport, self.loop)  # type: ignore[assignment]
        self.app_state = {**self.app_state, ABORT_KEY: transport.abort, KNOWN_KEY: self._recognise}
        self.head_since = self.loop.time()
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is served over another protocol, and the answer says so: advice in the log would help nobody."""

    def abort(self) -> None:
        self.transport.abort()

    def _recognise(self) -> None:
        self._all.recognised(self)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if not self.head_since:
                self.head_since = self.loop.time()
            self._head_bytes += len(data)
            # The last piece may be the beginning of the body: it does not count.
            if self._head_bytes - len(data) > MAX_HEAD_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head, self.head_since, self.busy = False, 0.0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.busy = bool(self.pipeline)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.paused_since = self.loop.time()
        self.unread = self.transport.get_write_buffer_size()
        self._all.paused(self)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._all.resumed(self)
        super().resume_writing()


def abort_of(scope: Mapping[str, Any]) -> Callable[[], None]:
    """How the connection of an ASGI scope is cut; nothing for one that has none."""
    abort = (scope.get("state") or {}).get(ABORT_KEY)
    return abort if callable(abort) else lambda: None


def recognise(scope: Mapping[str, Any]) -> None:
    """The client of an ASGI scope has said who it is; nothing for one that has no connection."""
    known = (scope.get("state") or {}).get(KNOWN_KEY)
    if known is not None:
        known()
