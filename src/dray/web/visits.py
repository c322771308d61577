"""Visits: who looks at the page now. What the page keeps for viewers is dropped when nobody has looked for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

UNUSED_SECONDS: Final = 300.0


class Visits:
    """`drop` is called some time after the last visit, and never while there is one."""

    def __init__(self, drop: Callable[[], Awaitable[None]], *, seconds: float = UNUSED_SECONDS) -> None:
        self._drop = drop
        self._seconds = seconds
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None
        self._dropping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[None]:
        self._now += 1
        self._keep()
        try:
            # Who comes while everything is being dropped waits, and has it made anew.
            while self._dropping is not None:
                await asyncio.wait([self._dropping])
            yield
        finally:
            self._now -= 1
            if not self._now:
                self._keep()
                self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    async def close(self) -> None:
        self._keep()
        if self._dropping is not None:
            await asyncio.wait([self._dropping])

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        self._dropping = asyncio.create_task(self._end(), name="page: drop what nobody looks at")

    async def _end(self) -> None:
        try:
            await self._drop()
        finally:
            self._dropping = None
