"""The store in memory: the log, and watches over it. Every write is durable as soon as it is applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.store.interface import Encode, Event, Page, Record, StoreError
from dray.store.log import Log
from dray.store.watches import BUFFER, BufferedWatch, Watches

HISTORY: Final = 64 << 20


class MemoryStore:
    """A store in memory; `history` is the limit in bytes of old versions, for watches and pages at older revisions.

    Durable stores are subclasses: `_admit` and `_settle` decide when a write is accepted and when it is durable.
    """

    def __init__(self, *, buffer: int = BUFFER, history: int = HISTORY) -> None:
        self._log = Log()
        self._watches = Watches()
        self._buffer = buffer
        self._most_bytes = history
        self._closed = False

    @property
    def revision(self) -> int:
        return self._log.revision

    @property
    def trouble(self) -> str:
        return ""

    def get(self, key: str) -> Record | None:
        return self._log.get(key)

    def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        return self._log.page(prefix, limit=limit, after=after, revision=revision)

    async def create(self, key: str, encode: Encode) -> Record:
        self._admit(frees=False)
        return await self._settle(self._log.create(key, encode))

    async def update(self, key: str, encode: Encode, *, expect: int = 0, frees: bool = False) -> Record:
        self._admit(frees=frees)
        return await self._settle(self._log.update(key, encode, expect))

    async def delete(self, key: str, *, expect: int = 0, encode: Encode | None = None) -> Record:
        self._admit(frees=True)
        return await self._settle(self._log.delete(key, encode, expect))

    def watch(self, prefix: str, *, after: int) -> BufferedWatch:
        if self._closed:
            raise StoreError("the store is closed")
        return self._watches.open(self._log, prefix, after, self._buffer)

    async def compact(self, revision: int) -> None:
        self._log.compact(revision)

    def snapshot(self) -> bytes:
        raise StoreError("this server keeps nothing on disk; start it with --data DIR")

    async def close(self) -> None:
        self._closed = True
        self._watches.close()

    def _admit(self, *, frees: bool) -> None:
        """Called before a write; raises an error if the write is refused."""
        if self._closed:
            raise StoreError("the store is closed")

    async def _settle(self, event: Event) -> Record:
        """Called after a write was applied; returns when it is durable."""
        self._publish((event,))
        return event.record

    def _publish(self, events: Sequence[Event]) -> None:
        """Publishes durable events to watches, and drops old versions above the limit."""
        self._log.publish()
        self._watches.publish(events)
        if self._log.past_bytes > self._most_bytes:
            # Drops down to half of the limit, so that this is not needed for every write.
            self._forget(self._log.oldest_within(self._most_bytes // 2))
            # A reader that is further behind would keep dropped versions in memory.
            self._watches.fail_behind(self._log.compacted)

    def _forget(self, revision: int) -> None:
        self._log.compact(revision)
