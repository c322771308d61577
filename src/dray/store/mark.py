"""The newest acknowledged revision, noted outside of the database: what tells a lost write-ahead log from an empty one.

SQLite takes a write-ahead log that is missing, or damaged in its middle, for one that ends there, and says nothing. So
the revision of every commit is noted in a file of its own, after the commit and before anybody is told of it. It is
written without waiting for the disk, at the cost of one system call. A process that is killed leaves the database at
the mark or after it. A machine that loses power may leave the mark ahead of it where commits did not wait for the disk,
and then the loss is only reported; what was reserved did wait, and must be there.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_log = logging.getLogger("dray.store")

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_WIDTH: Final = 20


class Noted(NamedTuple):
    revision: int
    reserved: int
    same_boot: bool


class Mark:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._boot = _boot()
        self._descriptor = -1
        self._reserved = 0

    def read(self) -> Noted | None:
        """Returns the mark of a process that did not end in good order; None if there is none."""
        try:
            revision, reserved, boot = self.path.read_text().split()
            return Noted(int(revision), int(reserved), boot == self._boot)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            _log.warning("%s cannot be read: whether writes were lost is not known", self.path)
            return None

    def begin(self, revision: int, reserved: int) -> None:
        """Creates the mark."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.note(revision, reserved)
        with suppress(OSError):
            os.fsync(self._descriptor)

    def note(self, revision: int, reserved: int = 0) -> None:
        self._reserved = max(reserved, self._reserved)
        line = f"{revision:{_WIDTH}} {self._reserved:{_WIDTH}} {self._boot}\n"
        # A full disk does not matter: the file has its full size from the beginning.
        with suppress(OSError):
            os.pwrite(self._descriptor, line.encode(), 0)

    def release(self) -> None:
        """Closes the mark and leaves the file, as a crash would."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Removes the mark after the database was closed in good order."""
        self.release()
        self.path.unlink(missing_ok=True)


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"
