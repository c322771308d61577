"""Serialization of prepare and unprepare: one claim at a time for the whole driver, or one call at a time per claim.

In a rolling update the driver-wide lock is a file lock that excludes the other instance too. A lock is held until the
driver's method has really ended, also when its caller has given up.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.2


class DriverLock:
    """`path` is that of the file lock, if there is another process to exclude."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = asyncio.Lock()
        self._path = path

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._lock:
            if self._path is None:
                yield
                return
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                await lock_file(descriptor)
                yield
            finally:
                # Closing releases the lock.
                os.close(descriptor)


async def lock_file(descriptor: int) -> None:
    """Returns once this process has the lock of the open file; closing the file gives it back."""
    # Waiting in a thread could not be cancelled, and would end up with a lock that nobody holds.
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
        else:
            return


class ClaimLocks:
    """A lock for each claim that is worked on, and the task that prepares it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._preparing: dict[str, asyncio.Task[object]] = {}

    @asynccontextmanager
    async def held(self, uid: str) -> AsyncIterator[None]:
        lock, users = self._locks.get(uid, (asyncio.Lock(), 0))
        self._locks[uid] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[uid]
            if users == 1:
                del self._locks[uid]
            else:
                self._locks[uid] = lock, users - 1

    @asynccontextmanager
    async def preparing(self, uid: str) -> AsyncIterator[None]:
        """The current task prepares the claim."""
        task = asyncio.current_task()
        assert task is not None
        self._preparing[uid] = task
        try:
            yield
        finally:
            if self._preparing.get(uid) is task:
                del self._preparing[uid]

    def interrupt(self, uid: str) -> None:
        """Whoever unprepares a claim does not wait for a prepare that nobody wants any more."""
        task = self._preparing.pop(uid, None)
        if task is not None:
            task.cancel()
