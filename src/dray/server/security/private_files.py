"""Files that only their owner may read: keys, tokens, kubeconfigs.

A file is written whole or not at all: a new one beside it, mode 0600 from the first byte, flushed to the disk, then
renamed over the old. A secret that others can read may have been read, so reading one is an error that says what to do.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dray.process.directories import sync_directory


class ExposedFileError(Exception):
    """Raised if other users can read a private file."""


def write_private(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno:
            # An error of writing does not name the file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_directory(path.parent)


def read_private(path: Path) -> bytes | None:
    """Returns the content; None if there is no such file."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ExposedFileError(
                    f"{path} is open to others (mode {mode:04o}): run `chmod 600 {path}`, "
                    "or delete it if somebody may have read it, and a new one is made"
                )
            return file.read()
    except FileNotFoundError:
        return None


@contextmanager
def private_directory(path: Path) -> Iterator[None]:
    """Makes a directory and locks it against other processes that would write their keys into it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
