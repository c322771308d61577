"""Room on the disk that is kept back, so that something can still be deleted when there is no other.

A file of some size that holds nothing. It is given up for as long as it takes to write what frees space, and taken
again at once: nobody else gets its room. Any other reason not to write, such as a read-only file system, is raised.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_SIZE: Final = 16 << 20
_LEAST: Final = 64 << 10
# Of a small disk it takes only a part.
_SHARE: Final = 4
# More than this beside it, and the disk is not full.
_ENOUGH: Final = 1 << 20
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
# Answers of file systems that keep no room for a file.
_UNABLE: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Ballast:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = _wanted(path.parent)

    def hold(self) -> bool:
        """Takes the room, or as much of it as there is, and says whether that is all; raises OSError."""
        size = self._size
        while size >= _LEAST:
            if self._take(size):
                return size == self._size
            size //= 2
        return False

    def is_light(self) -> bool:
        """Whether there is room again beside it; raises OSError."""
        return self.hold() and free(self._path.parent) >= self.enough

    @property
    def enough(self) -> int:
        """Number of free bytes from which on a disk does not count as full."""
        return min(_ENOUGH, self._size)

    @property
    def largest_log(self) -> int:
        """Size in bytes that the write-ahead log should have at most, so that it always fits into the database.

        A log of this size is not moved on a disk with less room than that. It may then grow until the disk is full, to
        about twice the size, and beyond it by one transaction. The room that is kept back is enough for that.
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
    """The bytes that may still be written there."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def _wanted(directory: Path) -> int:
    try:
        disk = os.statvfs(directory)
    except OSError:
        return _SIZE
    return max(_LEAST, min(_SIZE, disk.f_blocks * disk.f_frsize // _SHARE))
