"""Turns: few things are done at a time, and for each viewer one: whoever asks for much waits for themselves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self, at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._locks: dict[str, asyncio.Lock] = {}
        self._asked: Counter[str] = Counter()

    def asked(self, viewer: str) -> int:
        """How many turns a viewer has or waits for."""
        return self._asked[viewer]

    @asynccontextmanager
    async def turn(self, viewer: str) -> AsyncIterator[None]:
        self._asked[viewer] += 1
        try:
            async with self._locks.setdefault(viewer, asyncio.Lock()), self._room:
                yield
        finally:
            self._asked[viewer] -= 1
            if not self._asked[viewer]:
                del self._asked[viewer], self._locks[viewer]
