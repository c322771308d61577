"""Lock of a container's directory: held while its shim is being started and for as long as the shim is there.

The agent takes it and hands the open file to the shim, so there is no moment at which an agent that was killed leaves
a container that its successor takes for one that was never started. A process id could be that of another process by
then; a lock cannot.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FILE: Final = "shim.lock"


@contextmanager
def held(directory: Path) -> Iterator[int]:
    """Takes the lock and yields its open file; processes that inherit the file keep the lock."""
    descriptor = os.open(directory / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    try:
        descriptor = os.open(directory / _FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
