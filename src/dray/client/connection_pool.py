"""Connection pool: a bounded number of connections, replaced together once one of them stops answering.

Idle connections often break together and without notice: a load balancer was replaced, a firewall dropped its state.
One that stopped answering therefore closes the idle ones beside it. A request that waits for a connection has not been
sent yet, so the wait does not count against its timeout.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import aiohttp


class ConnectionPool:
    def __init__(self, open_session: Callable[[], aiohttp.ClientSession], *, limit: int = 0) -> None:
        """The session opens with the first request, in the loop that makes it. No limit is 0."""
        self._open = open_session
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._session: aiohttp.ClientSession | None = None
        self._users: Counter[aiohttp.ClientSession] = Counter()

    async def take(self) -> aiohttp.ClientSession:
        """A session for one request; `leave` must follow."""
        if self._slots is not None:
            await self._slots.acquire()
        if self._session is None:
            self._session = self._open()
        self._users[self._session] += 1
        return self._session

    async def leave(self, session: aiohttp.ClientSession, *, silent: bool = False) -> None:
        """`silent` tells that no answer came in time."""
        if self._slots is not None:
            self._slots.release()
        if silent and session is self._session:
            self._session = None
        self._users[session] -= 1
        if not self._users[session]:
            del self._users[session]
            if session is not self._session:
                await session.close()

    async def renew(self) -> None:
        """Requests from now on get new connections."""
        session, self._session = self._session, None
        if session is not None and not self._users[session]:
            await session.close()

    async def close(self) -> None:
        sessions = {*self._users, *([self._session] if self._session is not None else [])}
        self._session = None
        for session in sessions:
            await session.close()
