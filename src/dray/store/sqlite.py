"""The store with a memory longer than the process: the log in memory, and a journal of it in an SQLite file.

All writes of one turn of the event loop go into one transaction, committed when the turn is over; then their coroutines
return and watches see them. The commit runs in the loop: no thread, and no acknowledgement before it. If it fails,
every write of the turn is undone and raises; the next turn tries anew.

If it fails because the disk is full, deletions have room that was kept back (`ballast`); other writes are tried once a
second, and all of them again when there is room: on the disk, or in the file, since what is deleted leaves room there.
Former versions are not kept on a full disk, so that this happens soon. `trouble` says so meanwhile.
"""

from __future__ import annotations

import logging
import sqlite3
from asyncio import Future, get_running_loop, sleep
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Final

from dray.store.ballast import Ballast
from dray.store.interface import Encode, Event, NoSpace, NotDurable, Record, StoreError
from dray.store.journal import Journal, out_of_space
from dray.store.log import Gaps, Log
from dray.store.memory import HISTORY, MemoryStore
from dray.store.watches import BUFFER

_logger = logging.getLogger("dray.store")

# Seconds between two attempts to write after a failure.
_PAUSE: Final = 1.0
# Rows that a compaction removes before other tasks run; each may have 1.5 MiB, freed page by page.
_STRIDE: Final = 20


class SqliteStore(MemoryStore):
    def __init__(self, directory: Path, *, buffer: int = BUFFER, history: int = HISTORY, fsync: bool = False) -> None:
        super().__init__(buffer=buffer, history=history)
        self._journal = Journal(directory, fsync=fsync)
        self._ballast = Ballast(directory / "store.ballast")
        self._journal.checkpoint_at(self._ballast.largest_log)
        self._trouble = ""
        self._tight = False
        # True if less room than wanted is kept back for deletions.
        self._light = False
        # True if a write that waits for the commit needs room.
        self._needs_room = False
        # Time of the next attempt of a write that needs room.
        self._next_try = 0.0
        try:
            self._log = self._load()
        except Exception as error:
            self._journal.abandon()
            raise StoreError(f"cannot read {self._journal.path}: {error}") from error
        self._hold()
        self._waiters: list[Future[None]] = []
        self._unsaved_gaps: Gaps = []
        self._garbage: deque[int] = deque()

    def _load(self) -> Log:
        try:
            return self._journal.load()
        except sqlite3.Error as error:
            if not out_of_space(error):
                raise
            self._ballast.release()
            self._journal.make_room()
            return self._journal.load()

    @property
    def trouble(self) -> str:
        if self._trouble and self._may_try():
            self._look_again()
        return self._trouble

    async def update(self, key: str, encode: Encode, *, expect: int = 0, frees: bool = False) -> Record:
        try:
            return await super().update(key, encode, expect=expect, frees=frees)
        except NoSpace:
            if not frees:
                raise
        # The ballast is released meanwhile, and other writes are refused.
        return await super().update(key, encode, expect=expect, frees=frees)

    async def delete(self, key: str, *, expect: int = 0, encode: Encode | None = None) -> Record:
        try:
            return await super().delete(key, expect=expect, encode=encode)
        except NoSpace:
            return await super().delete(key, expect=expect, encode=encode)

    def _forget(self, revision: int) -> None:
        # Versions that nobody can read leave the file with the next compaction.
        self._garbage.extend(self._log.compact(revision))

    async def compact(self, revision: int) -> None:
        self._forget(max(revision, self._log.published) if self._tight else revision)
        while True:
            # SQLite may overwrite what it frees: a full disk has room for one value, not for the whole stride.
            rows = list(islice(self._garbage, 1 if self._tight else _STRIDE))
            try:
                with self._giving_way():
                    self._journal.forget(rows, self._log.compacted)
            except Exception as error:
                if out_of_space(error):
                    self._tighten()
                raise NotDurable(f"cannot compact {self._journal.path}: {error}") from error
            for _ in rows:
                self._garbage.popleft()
            if not self._garbage:
                if self._light:
                    self._hold()
                return
            await sleep(0)

    def snapshot(self) -> bytes:
        return self._journal.snapshot()

    async def close(self) -> None:
        if self._closed:
            return
        self._commit()
        await super().close()
        self._journal.close(self._log.revision)

    def _admit(self, *, frees: bool) -> None:
        super()._admit(frees=frees)
        if self._tight and not frees and not self._may_try():
            raise NoSpace(self._trouble)
        self._needs_room |= not frees
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
        needs_room, self._needs_room = self._needs_room, False
        try:
            with nullcontext() if needs_room else self._giving_way():
                self._journal.append(events, self._unsaved_gaps, self._log.revision, sparing=self._tight)
        except Exception as error:
            return self._roll_back(self._failed(error))
        if self._trouble:
            self._succeeded()
        self._unsaved_gaps = []
        self._publish(events)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return None

    def _failed(self, error: Exception) -> NotDurable:
        self._next_try = monotonic() + _PAUSE
        if out_of_space(error):
            self._tighten()
            return NoSpace(self._trouble)
        self._note_trouble(f"cannot write to {self._journal.path}: {error}")
        return NotDurable(self._trouble)

    def _tighten(self) -> None:
        """Refuses all writes on a full disk, except those that free space."""
        if not self._tight:
            self._tight = True
            self._journal.checkpoint_at(0)
        self._note_trouble(f"no space left on device: cannot write to {self._journal.path}")

    def _hold(self) -> None:
        """Reserves room for deletions, as much as there is."""
        try:
            self._light = not self._ballast.hold()
        except OSError as error:
            self._light = True
            self._note_trouble(f"cannot write to {self._journal.path}: {error}")
            return
        if self._light and not self._journal.has_room(self._ballast.enough):
            self._tighten()

    @contextmanager
    def _giving_way(self) -> Iterator[None]:
        """Releases the ballast within the context, so that writes that free space have room."""
        if not self._tight:
            yield
            return
        self._ballast.release()
        try:
            yield
        finally:
            self._journal.make_room()
            with suppress(OSError):
                self._light = not self._ballast.hold()

    def _succeeded(self) -> None:
        if not self._tight:
            self._end_trouble()

    def _may_try(self) -> bool:
        return monotonic() >= self._next_try

    def _look_again(self) -> None:
        self._next_try = monotonic() + _PAUSE
        if self._tight and not self._has_room():
            return
        if self._tight:
            self._tight = False
            self._journal.checkpoint_at(self._ballast.largest_log)
        with suppress(sqlite3.Error):
            self._journal.try_out()
            self._end_trouble()

    def _has_room(self) -> bool:
        """Returns True if a disk that was full has room again; records other problems."""
        try:
            if self._ballast.is_light():
                self._light = False
                return True
        except OSError as error:
            self._note_trouble(f"cannot write to {self._journal.path}: {error}")
            return False
        self._journal.make_room()
        return self._journal.has_room(self._ballast.enough)

    def _note_trouble(self, why: str) -> None:
        if why != self._trouble:
            _logger.error("%s", why)
        self._trouble = why

    def _end_trouble(self) -> None:
        _logger.warning("%s can be written to again", self._journal.path)
        self._trouble, self._next_try = "", 0.0

    def _roll_back(self, error: NotDurable) -> NotDurable:
        if self._log.revision > self._log.published:
            self._watches.fail_above(self._log.published)
            self._unsaved_gaps.append(self._log.undo())
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(type(error)(*error.args))
        return error
