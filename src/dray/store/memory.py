"""The store in memory: the log, and watches over it. Every write is durable as soon as it is applied."""

from __future__ import annotations

from dray.store.interface import Encode, Event, Page, Record, StoreError
from dray.store.log import Log
from dray.store.watches import BUFFER, BufferedWatch, Watches


class MemoryStore:
    """Also what a durable store is built on: it decides in `_admit` and `_settle` when a write counts."""

    def __init__(self, *, buffer: int = BUFFER) -> None:
        self._log = Log()
        self._watches = Watches()
        self._buffer = buffer
        self._closed = False

    @property
    def revision(self) -> int:
        return self._log.revision

    def get(self, key: str) -> Record | None:
        return self._log.get(key)

    def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        return self._log.page(prefix, limit=limit, after=after, revision=revision)

    async def create(self, key: str, encode: Encode) -> Record:
        self._admit()
        return await self._settle(self._log.create(key, encode))

    async def update(self, key: str, encode: Encode, *, expect: int = 0) -> Record:
        self._admit()
        return await self._settle(self._log.update(key, encode, expect))

    async def delete(self, key: str, *, expect: int = 0, encode: Encode | None = None) -> Record:
        self._admit()
        return await self._settle(self._log.delete(key, encode, expect))

    def watch(self, prefix: str, *, after: int) -> BufferedWatch:
        if self._closed:
            raise StoreError("the store is closed")
        return self._watches.open(self._log, prefix, after, self._buffer)

    async def compact(self, revision: int) -> None:
        self._log.compact(revision)

    async def close(self) -> None:
        self._closed = True
        self._watches.close()

    def _admit(self) -> None:
        """Before a write: raises if none can be taken."""
        if self._closed:
            raise StoreError("the store is closed")

    async def _settle(self, event: Event) -> Record:
        """After a write was applied: returns when it is durable."""
        self._log.publish()
        self._watches.publish((event,))
        return event.record
