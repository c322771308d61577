"""The log in an SQLite file: one row a version, in the order of revisions; the newest row of a key is what it is now.

Compaction removes rows that newer ones have replaced, oldest first, so that wherever it is interrupted no deleted key
comes back. What a stopped process left is read as it is; there is nothing else to repair.

Revisions are reserved in blocks, and the reservation is on disk before the first of them is handed out. After a crash
the log goes on above the reservation: whatever was read or promised below it is never used again, and what lies between
the newest row and the reservation is a gap at which no reader can resume.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dray.store.ballast import FULL, free
from dray.store.directory import Directory
from dray.store.interface import Event, EventType, Record, StoreError
from dray.store.log import Gaps, Log
from dray.store.mark import Mark

_log = logging.getLogger("dray.store")

_SCHEMA_VERSION: Final = 1
_CHECKPOINT_PAGES: Final = 1000
_PAGE: Final = 4096
_BLOCK: Final = 10_000
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE gap (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    created INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    value BLOB NOT NULL
);
INSERT INTO meta VALUES ('schema', 1), ('reserved', 0), ('clean', 1), ('compacted', 0);
"""
_SET: Final = "UPDATE meta SET value = ? WHERE name = ?"


class Journal:
    """The log as an SQLite file. With `fsync` every commit waits for the disk and survives a loss of power."""

    def __init__(self, directory: Path, *, fsync: bool) -> None:
        self._fsync = fsync
        self._directory = Directory(directory)
        self._mark = Mark(directory / "store.mark")
        self.reserved = 0
        try:
            self.path = self._directory.file("store.db")
            self._connection = sqlite3.connect(self.path, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            self._directory.release()
            raise StoreError(f"cannot open {directory / 'store.db'}: {error}") from error
        except BaseException:
            self._directory.release()
            raise

    def load(self) -> Log:
        """Returns the log as it was left, and reserves revisions for new writes."""
        meta: dict[str, int] = dict(self._connection.execute("SELECT name, value FROM meta"))
        gaps: Gaps = self._connection.execute("SELECT first, last FROM gap ORDER BY first").fetchall()
        reserved, compacted = meta["reserved"], meta["compacted"]
        revision, lost = reserved, []
        # The state after a gap has the revision after it.
        newest = max(self._newest(), compacted, *(last + 1 for _, last in gaps))
        self._compare(newest, sys.maxsize if meta["clean"] else reserved)
        if not meta["clean"]:
            lost = [(newest + 1, reserved)] if newest < reserved else []
            revision = reserved + 1
        log = Log()
        leftover = log.restore(self._versions(), compacted=compacted, revision=revision, gaps=gaps + lost)
        with self._transaction(sync=True) as connection:
            connection.executemany("DELETE FROM log WHERE revision = ?", ((revision,) for revision in leftover))
            connection.executemany("INSERT INTO gap VALUES (?, ?)", lost)
            connection.executemany(_SET, [(revision + _BLOCK, "reserved"), (0, "clean")])
        self.reserved = revision + _BLOCK
        self._mark.begin(newest, self.reserved)
        return log

    def _compare(self, newest: int, reserved: int) -> None:
        """Raises StoreError if an acknowledged write is missing."""
        noted = self._mark.read()
        if noted is None or (newest >= noted.revision and reserved >= noted.reserved):
            return
        lost = (
            f"{self.path} ends at revision {newest}, but {noted.revision} was acknowledged: "
            f"the write-ahead log {self.path}-wal is missing or damaged"
        )
        if reserved >= noted.reserved and not noted.same_boot and not self._fsync:
            _log.warning("%s; the machine went down, and --fsync was not given", lost)
            return
        # Closing the database would remove the log as complete.
        log = Path(f"{self.path}-wal")
        if log.exists() and not (kept := log.with_name(f"{log.name}.damaged")).exists():
            shutil.copy(log, kept)
        raise StoreError(f"{lost}; restore it, or remove {self._mark.path} to go on with what is left")

    def append(self, events: Sequence[Event], gaps: Gaps, revision: int, *, sparing: bool = False) -> None:
        """Appends all events or none; `revision` is the newest one used. `sparing` takes as little room as possible."""
        reserve = revision + _BLOCK if revision + _BLOCK // 2 > self.reserved else 0
        with self._transaction(sync=bool(reserve)) as connection:
            rows = map(_bare_row, events) if sparing else map(_row, events)
            connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            if gaps:
                connection.executemany("INSERT INTO gap VALUES (?, ?)", gaps)
            if reserve:
                connection.execute(_SET, (reserve, "reserved"))
        self.reserved = reserve or self.reserved
        if events:
            self._mark.note(events[-1].record.revision, self.reserved)

    def make_room(self) -> None:
        """Moves the write-ahead log into the database if it fits, so that its room is reused."""
        execute = self._connection.execute
        with suppress(sqlite3.Error, OSError):
            pages, size = execute("PRAGMA page_count").fetchone()[0], execute("PRAGMA page_size").fetchone()[0]
            if pages * size - self.path.stat().st_size <= free(self.path.parent):
                execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def has_room(self, enough: int) -> bool:
        """Returns True if this many bytes fit, including free pages of the database, which deleted rows leave."""
        execute, log = self._connection.execute, Path(f"{self.path}-wal")
        try:
            pages, size = execute("PRAGMA freelist_count").fetchone()[0], execute("PRAGMA page_size").fetchone()[0]
            disk = free(self.path.parent)
            # The write-ahead log is overwritten from its start once it is moved into the database.
            logged = log.stat().st_size if log.exists() else 0
        except (sqlite3.Error, OSError):
            return False
        return pages * size + disk >= enough and logged + disk >= enough

    def checkpoint_at(self, size: int) -> None:
        """Moves the write-ahead log into the database whenever it has about this many bytes, or 4 MB.

        With 0 only `make_room` moves it: a move that fails takes the remaining room.
        """
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {min(_CHECKPOINT_PAGES, size // _PAGE)}")

    def snapshot(self) -> bytes:
        """Returns the database as a file would have it, including the write-ahead log.

        Nothing else runs meanwhile: 100 MB take about 0.3 s. Raises StoreError.
        """
        try:
            return self._connection.serialize()
        except (sqlite3.Error, MemoryError) as error:
            raise StoreError(f"{self.path} cannot be copied: {error}") from error

    def try_out(self) -> None:
        """Raises the error that a write would raise."""
        with self._transaction(sync=False) as connection:
            connection.execute("UPDATE meta SET value = value WHERE name = 'schema'")

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        """Removes rows; their revisions must be in order over all calls."""
        with self._transaction(sync=False) as connection:
            connection.execute(_SET, (compacted, "compacted"))
            connection.execute("DELETE FROM gap WHERE last < ?", (compacted,))
            connection.executemany("DELETE FROM log WHERE revision = ?", ((revision,) for revision in revisions))

    def close(self, revision: int) -> None:
        """Closes the file, and gives back reserved revisions above `revision`."""
        try:
            clean = False
            with suppress(sqlite3.Error), self._transaction(sync=True) as connection:
                connection.executemany(_SET, [(revision, "reserved"), (1, "clean")])
                clean = True
            self._connection.close()
            if clean:
                self._mark.remove()
        finally:
            self._mark.release()
            self._directory.release()

    def abandon(self) -> None:
        """Closes the file without writing to it, as a crash would."""
        self._mark.release()
        self._connection.close()
        self._directory.release()

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA journal_size_limit = 67108864")
        execute(f"PRAGMA synchronous = {'FULL' if self._fsync else 'NORMAL'}")
        if not execute("SELECT 1 FROM sqlite_master").fetchone():
            self._connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        row = execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        if row != (_SCHEMA_VERSION,):
            found = row[0] if row else "unknown"
            raise StoreError(f"{self.path} has schema version {found}, this program reads {_SCHEMA_VERSION}")

    def _newest(self) -> int:
        row: tuple[int | None] = self._connection.execute("SELECT max(revision) FROM log").fetchone()
        return row[0] or 0

    def _versions(self) -> Iterator[tuple[Record, bool]]:
        rows = self._connection.execute("SELECT key, value, created, revision, deleted FROM log ORDER BY revision")
        for key, value, created, revision, deleted in rows:
            yield Record(key, value, created, revision), bool(deleted)

    @contextmanager
    def _transaction(self, *, sync: bool) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        raised = sync and not self._fsync
        if raised:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        finally:
            if raised:
                with suppress(sqlite3.Error):
                    connection.execute("PRAGMA synchronous = NORMAL")


def out_of_space(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in FULL


def _bare_row(event: Event) -> tuple[int, str, int, bool, bytes]:
    """Returns a row; without the content of a deleted record, which the row before has."""
    row = _row(event)
    return (*row[:4], b"") if event.type is EventType.DELETED else row


def _row(event: Event) -> tuple[int, str, int, bool, bytes]:
    record = event.record
    return record.revision, record.key, record.created, event.type is EventType.DELETED, record.value
