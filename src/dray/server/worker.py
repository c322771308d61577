"""Worker threads for work that takes long, so that the event loop answers other requests meanwhile.

The work uses values of its own, or values that are never changed: the body of a request, stored bytes, the rules of a
kind. What changes is read before and written after it, in the loop; the store compares revisions, so that work on an
object that has changed meanwhile is done again.

Small work is done at once: most requests are small, and going to a thread and back costs as much as they do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from dray.server import status

# Bytes of JSON that take about 20 ms to decode, check and compare.
AT_ONCE: Final = 48 * 1024
# Two threads, so that one long request does not block all others.
_THREADS: Final = 2
_MOST_WAITING: Final = 64
# The event loop waits for a computing thread several times per request: the default of 5 ms is too long.
_SWITCH_SECONDS: Final = 0.0005

_Arguments = ParamSpec("_Arguments")
_Outcome = TypeVar("_Outcome")


class Worker:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._waiting = 0

    async def run(
        self, size: int, work: Callable[_Arguments, _Outcome], *args: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Outcome:
        """Runs `work` in a thread, or at once if it is small; `size` is the bytes of JSON that it processes."""
        if size <= AT_ONCE:
            return work(*args, **named)
        if self._waiting >= _MOST_WAITING:
            raise status.too_many_requests("too many long requests are being served, try again later")
        if self._threads is None:
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
            self._threads = ThreadPoolExecutor(_THREADS, "dray-worker")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, partial(work, *args, **named))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
