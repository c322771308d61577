"""Ends what takes too long.

`asyncio.timeout` sets and cancels a timer for each wait, which costs more than most of the waits it guards: sending a
piece to a client that reads, or taking a body that is there. A `Watchdog` looks at all of them now and then, so a wait
may last a little longer than it should; entering and leaving one is a dictionary entry.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

_LOOKS = 8


class Watchdog:
    """`with watchdog:` raises TimeoutError if the task waits in the block for longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # What waits, since when; each task in one block at a time.
        self._waiting: dict[asyncio.Task[object], float] = {}
        self._late: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self._waiting[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds / _LOOKS, self._look, loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.pop(task, None)
        if task in self._late:
            self._late.discard(task)
            # Where somebody else cancelled it too, that counts.
            if task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        began = loop.time() - self._seconds
        for task in [task for task, since in self._waiting.items() if since <= began]:
            del self._waiting[task]
            self._late.add(task)
            task.cancel()
        if self._waiting:
            self._timer = loop.call_later(self._seconds / _LOOKS, self._look, loop)
