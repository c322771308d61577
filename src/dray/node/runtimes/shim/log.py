"""The log of a container: a line for each line it writes, in the format of the Container Runtime Interface.

    2026-11-16T20:00:00.000000000Z stdout F a whole line
    2026-11-16T20:00:00.000000000Z stderr P a part of a line

A file that grows past a size is rotated.
"""

from __future__ import annotations

import contextlib
import os
import time

from dray.node.runtimes.log_rotation import rotate

_LONGEST_LINE = 16 * 1024
_STREAMS = {1: b"stdout", 2: b"stderr"}


class Log:
    def __init__(self, path: str, *, size: int, files: int) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._written = os.path.getsize(path) if os.path.exists(path) else 0
        self._rest = {1: b"", 2: b""}
        self._file = self._open()

    def write(self, stream: int, data: bytes) -> None:
        lines = (self._rest[stream] + data).split(b"\n")
        rest = lines.pop()
        head = self._head(stream)
        entries: list[bytes] = []
        for line in lines:
            line = _cut(line, head, entries)
            entries.append(b"%sF %s\n" % (head, line))
        self._rest[stream] = _cut(rest, head, entries)
        self._append(entries)

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._append([b"%sP %s\n" % (self._head(stream), rest)])
        os.close(self._file)

    def _head(self, stream: int) -> bytes:
        return b"%s %s " % (_now(), _STREAMS[stream])

    def _append(self, entries: list[bytes]) -> None:
        """Appends entries in as few writes as possible: a container may write a million lines a second."""
        batch: list[bytes] = []
        size = self._written
        for entry in entries:
            if size and size + len(entry) > self._size:
                self._write(batch)
                self._rotate()
                batch, size = [], 0
            batch.append(entry)
            size += len(entry)
        self._write(batch)

    def _write(self, batch: list[bytes]) -> None:
        # A full disk loses lines of the log, and never stops the container.
        with contextlib.suppress(OSError):
            self._written += os.write(self._file, b"".join(batch))

    def _rotate(self) -> None:
        os.close(self._file)
        rotate(self._path, self._files)
        self._file, self._written = self._open(), 0

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)


def _cut(line: bytes, head: bytes, entries: list[bytes]) -> bytes:
    """Appends the parts of a line that is too long. Returns the last part."""
    while len(line) >= _LONGEST_LINE:
        entries.append(b"%sP %s\n" % (head, line[:_LONGEST_LINE]))
        line = line[_LONGEST_LINE:]
    return line


def _now() -> bytes:
    nanoseconds = time.time_ns()
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest
