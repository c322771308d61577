"""The directory a store lives in: only its owner may look into it, only one process at a time may use it."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from pathlib import Path

from dray.store.interface import StoreError

_log = logging.getLogger("dray.store")


class InUse(StoreError):
    """Raised if another store has the directory open."""


def close_to_others(path: Path) -> None:
    """Removes all permissions of other users from a file or directory, and logs that."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & 0o077:
            return
        path.chmod(mode & 0o700)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(
            f"{path} is open to others (mode {mode:04o}) and cannot be closed: {error.strerror}"
        ) from error
    _log.warning("%s was open to others (mode %04o), who may have read the secrets in it; it is closed now", path, mode)


class Directory:
    """The directory of a store, locked until `release`; the end of the process releases the lock too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "store.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot use {path} as a data directory: {error.strerror}") from error
        for name in ("", "store.lock", "store.db", "store.db-wal", "store.db-shm", "store.mark", "store.ballast"):
            close_to_others(path / name)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._lock, 20).decode(errors="replace").strip()
            os.close(self._lock)
            raise InUse(f"data directory {path} is in use by process {holder or 'unknown'}") from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    def file(self, name: str) -> Path:
        """Returns the path of a file in the directory; makes the file if it is missing, readable by its owner only."""
        path = self.path / name
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return path

    def release(self) -> None:
        os.close(self._lock)
