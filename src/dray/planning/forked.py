"""Runs questions in forked copies of this process, several at a time: what one of them changes is gone with it.

A copy shares the memory of a scheduler with thousands of nodes, which takes a second to fill, and starts at once.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from dray.process.forking import can_fork
from dray.process.parent import die_with_parent

T = TypeVar("T")
_CHUNK: Final = 2**20
_MOST: Final = 4


def workers() -> int:
    """How many copies run at a time; 0 if this process cannot be forked."""
    return min(_MOST, os.cpu_count() or 1) if can_fork() else 0


def forked(works: Sequence[Callable[[], T]], seconds: float) -> list[T | None]:
    """Returns what each work returns in its own copy; None for one that fails, or takes longer than so many seconds."""
    gc.freeze()
    end = time.monotonic() + seconds
    children = [_started(work) for work in works]
    return [_answer(pid, pipe, end) for pid, pipe in children]


def _started(work: Callable[[], T]) -> tuple[int, int]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        die_with_parent(parent)
        gc.disable()
        os.close(reading)
        with os.fdopen(writing, "wb") as file:
            pickle.dump(work(), file)
        status = 0
    finally:
        # Nothing of the parent may run here: no output that it has not written yet, no handlers.
        os._exit(status)


def _answer(pid: int, pipe: int, end: float) -> T | None:
    data = bytearray()
    try:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return None
            chunk = os.read(pipe, _CHUNK)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(pipe)
        _, status = os.waitpid(pid, 0)
    found: T | None = pickle.loads(data) if status == 0 else None
    return found
