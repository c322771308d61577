"""The audit log: one JSON document a line, in a file that turns over by size.

`write` runs in the event loop and does no I/O: it encodes an event and puts it into a queue of bounded size, which a
thread empties. When the disk is slower than the requests for so long that the queue is full, or does not take a line
at all, events are dropped, and that is said: in `dropped`, and as soon as there is room again in the log itself.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from io import FileIO
from pathlib import Path

import msgspec

from dray.server.security.audit_events import MAX_BODY, Entry, Level, audit_event

_logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

# Lines written at once.
_BATCH = 64


class AuditLog:
    """The audit log; `levels` has levels by (group, resource), `level` is for everything else."""

    def __init__(
        self,
        path: Path,
        *,
        level: Level = Level.METADATA,
        levels: dict[tuple[str, str], Level] | None = None,
        max_bytes: int = 64 * 1024 * 1024,
        backups: int = 5,
        queue_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self._level = level
        self._levels = levels or {}
        self._queue_bytes = queue_bytes
        self._file = _RotatingFile(path, max_bytes, backups)
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._reported = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Returns how many events were lost since the start, for the metrics."""
        return self._dropped

    def level_for(self, group: str, resource: str) -> Level:
        """Returns the level of a resource; check it before building an Entry, which is not needed at the level None."""
        return self._levels.get((group, resource), self._level)

    def write(self, entry: Entry) -> None:
        level = self.level_for(entry.target.group, entry.target.resource)
        if level == Level.NONE:
            return
        line = _encode(audit_event(entry, level))
        if len(line) > MAX_BODY:
            line = _encode(audit_event(entry, Level.METADATA))
        with self._changed:
            if self._closing or self._size + len(line) > self._queue_bytes:
                self._dropped += 1
                return
            self._lines.append(line)
            self._size += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Writes queued events; returns when they are in the file."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._closing:
                    self._changed.wait()
                lines = list(self._lines)
                self._lines.clear()
                closing = self._closing
            self._append(lines)
            with self._changed:
                self._size -= sum(map(len, lines))
            if closing and not lines:
                self._file.close()
                return

    def _append(self, lines: list[bytes]) -> None:
        with self._changed:
            lost = self._dropped - self._reported
        if lost and self._write([_encode({"kind": "Dropped", "apiVersion": "audit.dray/v1", "count": lost})]):
            self._reported += lost
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            if not self._write(batch):
                with self._changed:
                    self._dropped += len(batch)

    def _write(self, lines: list[bytes]) -> bool:
        try:
            self._file.append(b"\n".join(lines) + b"\n")
        except OSError as error:
            _logger.error("the audit log cannot be written: %s", error)
            return False
        return True


class _RotatingFile:
    """A log file with mode 0600 that is renamed to `audit.log.1` and so on when it is full."""

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._file: FileIO | None = None
        self._size = 0
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()

    def append(self, content: bytes) -> None:
        """Appends whole lines; after an error the file is opened again."""
        try:
            if self._size and self._size + len(content) > self._max_bytes:
                self._rotate()
            file = self._file or self._open()
            while content:
                written = file.write(content) or 0
                self._size += written
                content = content[written:]
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> FileIO:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.fchmod(descriptor, 0o600)
        # Unbuffered: what was written survives the end of the process.
        self._file = FileIO(descriptor, "ab")
        self._size = os.fstat(descriptor).st_size
        self._end_broken_line()
        return self._file

    def _end_broken_line(self) -> None:
        """Adds a line break after half a line that a crash may have left."""
        if self._size and self._file is not None:
            with self._path.open("rb") as reader:
                reader.seek(-1, os.SEEK_END)
                if reader.read(1) != b"\n":
                    self._size += self._file.write(b"\n") or 0

    def _rotate(self) -> None:
        self.close()
        self._size = 0
        for index in range(self._backups, 0, -1):
            older = self._numbered(index - 1)
            if older.exists():
                os.replace(older, self._numbered(index))
        if self._backups == 0:
            self._path.unlink(missing_ok=True)

    def _numbered(self, index: int) -> Path:
        return self._path if index == 0 else self._path.with_name(f"{self._path.name}.{index}")
