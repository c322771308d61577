"""Entries of a container's log, in the format of the Container Runtime Interface, made into what the container wrote.

2026-11-16T20:00:00.000000000Z stdout F a whole line
2026-11-16T20:00:00.000000000Z stderr P a part of a line
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LogOptions:
    """`tail` is in lines, `limit` in bytes; None is all. `streams` are stdout, stderr or both."""

    follow: bool = False
    tail: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit: int | None = None
    streams: tuple[bytes, ...] = (b"stdout", b"stderr")


def ends_line(entry: bytes) -> bool:
    """Returns True if the entry ends a line; an entry that cannot be parsed counts as a line."""
    parts = entry.split(b" ", 3)
    return len(parts) < 3 or parts[2].partition(b":")[0] != b"P"


class Rendering:
    """Renders log entries for a client; remembers an open line, and how many bytes may follow."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._open_line = False
        self._left = options.limit

    @property
    def full(self) -> bool:
        return self._left == 0

    def render(self, entries: list[bytes]) -> bytes:
        made = b"".join(map(self._one, entries))
        if self._left is not None:
            made = made[: self._left]
            self._left -= len(made)
        return made

    def _one(self, entry: bytes) -> bytes:
        parts = entry.split(b" ", 3)
        if len(parts) < 3:
            return entry + b"\n"
        time, stream, tag = parts[:3]
        if stream not in self._options.streams or not self._is_recent(time):
            return b""
        text = parts[3] if len(parts) > 3 else b""
        prefix = time + b" " if self._options.timestamps and not self._open_line else b""
        self._open_line = tag.partition(b":")[0] == b"P"
        return prefix + text + (b"" if self._open_line else b"\n")

    def _is_recent(self, time: bytes) -> bool:
        if self._options.since is None:
            return True
        try:
            return datetime.fromisoformat(time.decode("ascii", "replace")) >= self._options.since
        except (ValueError, TypeError):
            return True
