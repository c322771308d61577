"""The open connections, and which of them are closed when there are too many.

The number of file descriptors is limited. Unauthenticated connections may use only a share of them, so that there is
room for the others. If few are left, the oldest idle connections are closed, unauthenticated ones first. A periodic
check also closes connections whose request head is not completed and clients that do not read; there is no timer per
connection. If too many bytes are unsent, the clients that have not read for longest are cut off at once: one large
event for thousands of watchers can add up to that in a moment.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterable
from typing import Final, Protocol

from dray.client.log_throttling import ThrottledLog

_log = logging.getLogger("dray.server")

HEAD_SECONDS: Final = 30.0
"""Timeout in seconds for the head of a request."""
HANDSHAKE_SECONDS: Final = 10.0
"""Timeout in seconds for the TLS handshake."""
STALLED_SECONDS: Final = 60.0
"""Timeout in seconds for a client that does not read."""
MAX_UNREAD: Final = 256 << 20
"""Limit of unsent bytes of all connections together."""
_INTERVAL: Final = 2.0
# File descriptors for files, and for everything else that the process opens.
_RESERVED: Final = 64
_MOST_DESCRIPTORS: Final = 65_536


class Connection(Protocol):
    head_since: float
    """Start time of a partly received head; 0 if there is none."""
    busy: bool
    """True while a request is being answered."""
    paused_since: float
    """Time since which the client does not read; 0 if it reads."""
    unread: int

    def abort(self) -> None: ...


def most_connections() -> int:
    """Returns the limit of connections, after raising the limit of file descriptors as far as permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass
    limit = _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    return max(limit - _RESERVED, limit // 2)


class Connections:
    def __init__(self, most: int) -> None:
        self._most = most
        self._strangers: dict[Connection, None] = {}
        """Unauthenticated connections, oldest first."""
        self._known: dict[Connection, None] = {}
        self._paused: dict[Connection, int] = {}
        """Unsent bytes of clients that have stopped reading, longest stopped first."""
        self._unread = 0
        self._tight = False
        self._timer: asyncio.TimerHandle | None = None
        self._throttled = ThrottledLog(_log)

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def opened(self, connection: Connection) -> None:
        self._strangers[connection] = None
        if len(self._strangers) > self._most // 2 or len(self) > self._most:
            self._make_room(connection)
        if self._timer is None:
            self._look_later()

    def recognised(self, connection: Connection) -> None:
        """Records that the client has authenticated."""
        if connection in self._strangers:
            del self._strangers[connection]
            self._known[connection] = None

    def closed(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        self.resumed(connection)
        if self._tight and len(self._strangers) < self._most // 4 and len(self) < self._most // 2:
            self._tight = False

    def malformed(self, why: str) -> None:
        """Logs that a client sent data that is not HTTP."""
        self._throttled.warning("malformed", "a client sent data that is not HTTP: %s", why)

    def paused(self, connection: Connection) -> None:
        self.resumed(connection)
        self._paused[connection] = connection.unread
        self._unread += connection.unread
        while self._unread > MAX_UNREAD and len(self._paused) > 1:
            longest = next(iter(self._paused))
            self.resumed(longest)
            longest.abort()

    def resumed(self, connection: Connection) -> None:
        self._unread -= self._paused.pop(connection, 0)

    def _make_room(self, newest: Connection) -> None:
        if not self._tight:
            self._tight = True
            _log.warning(
                "too many connections: %d are open, %d not authenticated, limit %d; closing the oldest idle ones",
                len(self),
                len(self._strangers),
                self._most,
            )
        chosen = _idle(self._strangers, newest) or (_idle(self._known, newest) if len(self) > self._most else None)
        if chosen is None:
            chosen = next(iter(self._strangers))
        self.closed(chosen)
        chosen.abort()

    def look(self, now: float) -> None:
        """Closes connections whose timeouts have passed."""
        for connection in [*self._strangers, *self._known]:
            if connection.head_since and now - connection.head_since > HEAD_SECONDS:
                connection.abort()
        for connection in list(self._paused):
            if now - connection.paused_since > STALLED_SECONDS:
                connection.abort()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_INTERVAL, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self.look(loop.time())
        if len(self):
            self._look_later()


def _idle(connections: Iterable[Connection], newest: Connection) -> Connection | None:
    return next((connection for connection in connections if not connection.busy and connection is not newest), None)
