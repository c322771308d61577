"""The store with a memory longer than the process: the log in memory, and a journal of it in an SQLite file.

All writes of one turn of the event loop go into one transaction, committed when the turn is over; then their coroutines
return and watches see them. The commit runs in the loop: no thread, and no acknowledgement before it. If it fails, for
instance because the disk is full, every write of the turn is undone and raises; the next turn tries anew.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop, sleep
from collections import deque
from itertools import islice
from pathlib import Path
from typing import Final

from dray.store.interface import Event, Record, StoreError
from dray.store.journal import Journal
from dray.store.log import Gaps
from dray.store.memory import HISTORY, MemoryStore
from dray.store.watches import BUFFER

# Rows a compaction removes before it lets others have the loop.
_STRIDE: Final = 200


class NotDurable(StoreError):
    """The write was undone because it could not be committed."""


class SqliteStore(MemoryStore):
    def __init__(self, directory: Path, *, buffer: int = BUFFER, history: int = HISTORY, fsync: bool = False) -> None:
        super().__init__(buffer=buffer, history=history)
        self._journal = Journal(directory, fsync=fsync)
        try:
            self._log = self._journal.load()
        except Exception as error:
            self._journal.abandon()
            raise StoreError(f"cannot read {self._journal.path}: {error}") from error
        self._waiters: list[Future[None]] = []
        self._unsaved_gaps: Gaps = []
        self._garbage: deque[int] = deque()

    def _forget(self, revision: int) -> None:
        # What nobody can read any more leaves the file with the next compaction.
        self._garbage.extend(self._log.compact(revision))

    async def compact(self, revision: int) -> None:
        self._forget(revision)
        while True:
            rows = list(islice(self._garbage, _STRIDE))
            try:
                self._journal.forget(rows, self._log.compacted)
            except Exception as error:
                raise NotDurable(f"cannot compact {self._journal.path}: {error}") from error
            for _ in rows:
                self._garbage.popleft()
            if not self._garbage:
                return
            await sleep(0)

    async def close(self) -> None:
        if self._closed:
            return
        self._commit()
        await super().close()
        self._journal.close(self._log.revision)

    def _admit(self) -> None:
        super()._admit()
        # One revision is kept back for the state after a failed commit.
        if self._log.revision + 1 >= self._journal.reserved and (error := self._commit()):
            raise error

    async def _settle(self, event: Event) -> Record:
        loop = get_running_loop()
        if not self._waiters:
            loop.call_soon(self._commit)
        waiter = loop.create_future()
        self._waiters.append(waiter)
        await waiter
        return event.record

    def _commit(self) -> NotDurable | None:
        if self._closed:
            return None
        events = self._log.pending()
        try:
            self._journal.append(events, self._unsaved_gaps, self._log.revision)
        except Exception as error:
            return self._roll_back(f"cannot write to {self._journal.path}: {error}")
        self._unsaved_gaps = []
        self._publish(events)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return None

    def _roll_back(self, why: str) -> NotDurable:
        if self._log.revision > self._log.published:
            self._watches.fail_above(self._log.published)
            self._unsaved_gaps.append(self._log.undo())
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(NotDurable(why))
        return NotDurable(why)
