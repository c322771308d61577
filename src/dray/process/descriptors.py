"""Descriptors of this process: pipes that the event loop owns, waiting for one, and whether enough are left."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from contextlib import ExitStack
from typing import Final

_logger = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 2.0
# Enough for the start of a container and an answer beside it.
_NEEDED: Final = 16


class LoopPipe:
    """A pipe that is handed to the event loop (connect_read_pipe, connect_write_pipe), and is closed once.

    The loops of asyncio leave closing to `close`. Uvloop calls it too, after it has closed the descriptor itself: by
    then another thread may have opened a file with the same number, which must not be closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._closes = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._closes:
            self._closes = False
            os.close(self._descriptor)


async def readable(descriptor: int | socket.socket) -> None:
    """Returns when there is something to read or to accept, which is left there."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int | socket.socket) -> None:
    """Returns when something can be written."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)


async def watch_descriptors() -> None:
    """Logs when few descriptors are left, and when there are enough again, until the task is cancelled."""
    was_enough = True
    while True:
        is_enough = _are_left(_NEEDED)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if was_enough and not is_enough:
            text = "too many open files: fewer than %d of %d (ulimit -n) are left; operations that need more will fail"
            _logger.error(text, _NEEDED, limit)
        elif is_enough and not was_enough:
            _logger.warning("enough files can be opened again")
        was_enough = is_enough
        await asyncio.sleep(_LOOK_SECONDS)


def _are_left(count: int) -> bool:
    with ExitStack() as stack:
        try:
            for _ in range(count):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True
