"""Room on the disk that is kept back, so that something can still be deleted when there is no other.

A file of some size that holds nothing. It is given up for as long as it takes to write what frees space, and taken
again at once: no other process gets its room. Any other reason not to write, such as a read-only file system, is
raised.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_SIZE: Final = 16 << 20
_LEAST: Final = 64 << 10
# The ballast takes at most this fraction of a small disk.
_SHARE: Final = 4
# With more free bytes than this, the disk is not full.
_ENOUGH: Final = 1 << 20
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
# Errors of file systems that cannot reserve room for a file.
_UNABLE: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Ballast:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = _wanted(path.parent)

    def hold(self) -> bool:
        """Reserves the room, or as much as there is. Returns True if that is all of it; raises OSError."""
        size = self._size
        while size >= _LEAST:
            if self._take(size):
                return size == self._size
            size //= 2
        return False

    def is_light(self) -> bool:
        """Returns True if there is free room besides the ballast again; raises OSError."""
        return self.hold() and free(self._path.parent) >= self.enough

    @property
    def enough(self) -> int:
        """Returns the number of free bytes from which on the disk does not count as full."""
        return min(_ENOUGH, self._size)

    @property
    def largest_log(self) -> int:
        """Returns the largest size in bytes of the write-ahead log, so that it always fits into the database.

        A log of this size is not moved on a disk with less room than that. It may then grow until the disk is full, to
        about twice the size, and beyond it by one transaction. The ballast is enough for that.
        """
        return self._size // 4

    def release(self) -> None:
        with suppress(OSError):
            self._path.unlink()

    def _take(self, size: int) -> bool:
        descriptor = -1
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if descriptor >= 0 and error.errno in _UNABLE:
                return True
            self.release()
            if error.errno in FULL:
                return False
            raise
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return True


def free(directory: Path) -> int:
    """Returns the number of bytes that may still be written in the directory."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def _wanted(directory: Path) -> int:
    try:
        disk = os.statvfs(directory)
    except OSError:
        return _SIZE
    return max(_LEAST, min(_SIZE, disk.f_blocks * disk.f_frsize // _SHARE))
