"""Watchdog of the event loop: how late it is, and which task blocked it.

A timer in the loop measures its own lateness. A thread looks at the timer from outside: where the loop has not turned
for `WARN` seconds, it notes the running task and the place in the code while they can still be seen. When the loop
turns again, one line says what held it and for how long. A loop that computes for `limit` seconds without a turn is
reported by the thread itself, since the loop may never come back; seconds of the clock do not count there, so neither a
suspended machine nor a debugger ends a process.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

WARN: Final = 0.5
_TICK: Final = 0.05
_LOOK: Final = 0.1
_PACKAGE: Final = str(Path(__file__).parents[1])
LOGGER: Final = "dray.process.loop"
_logger = logging.getLogger(LOGGER)


class Stall(NamedTuple):
    task: str
    """The name of the task that runs; empty between tasks."""
    place: str
    seconds: float

    def __str__(self) -> str:
        who = f"{self.task}, " if self.task else ""
        return f"{self.seconds:.1f} s: {who}{self.place}"


class LoopWatch:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._limit = math.inf
        self._hung: Callable[[Stall], None] | None = None
        self._ticked = self._computed = 0.0
        self._noted: Stall | None = None
        self._stopped = threading.Event()
        self._longest = self._longest_computed = 0.0
        registry = registry or CollectorRegistry()
        longest = Gauge(
            "dray_event_loop_longest_delay_seconds", "The longest that the event loop stood still.", registry=registry
        )
        longest.set_function(lambda: self._longest)
        computed = Gauge(
            "dray_event_loop_longest_computation_seconds",
            "The longest that the event loop stood still because it computed, not for want of a CPU.",
            registry=registry,
        )
        computed.set_function(lambda: self._longest_computed)
        self._stalls = Counter(
            "dray_event_loop_stalls_total", f"How often the event loop stood still for {WARN} s.", registry=registry
        )

    def limit(self, seconds: float, hung: Callable[[Stall], None]) -> None:
        """A loop that computes for so long without a turn is reported to `hung`, which is called in another thread."""
        self._limit, self._hung = seconds, hung

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Over the running loop, which must run in this thread."""
        loop = asyncio.get_running_loop()
        self._tick(loop)
        thread = threading.Thread(
            target=self._look_on, args=(loop, threading.get_ident()), name="loop watch", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._timer.cancel()

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if self._ticked:
            late = now - self._ticked - _TICK
            self._longest = max(self._longest, late)
            self._longest_computed = max(self._longest_computed, min(late, time.thread_time() - self._computed))
            if self._noted is not None:
                held, self._noted = self._noted, None
                self._stalls.inc()
                _logger.warning("the event loop stood still for %s", Stall(held.task, held.place, late))
        self._ticked, self._computed = now, time.thread_time()
        self._timer = loop.call_later(_TICK, self._tick, loop)

    def _look_on(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        clock = _cpu_clock(thread)
        reported = 0.0
        while not self._stopped.wait(_LOOK):
            ticked = self._ticked
            held = loop.time() - ticked
            if held < WARN:
                continue
            if self._noted is None:
                self._noted = Stall(_task(loop), _place(sys._current_frames().get(thread)), held)
            computed = clock() - self._computed
            if self._hung is not None and computed > self._limit and reported != ticked:
                reported = ticked
                self._hung(Stall(_task(loop), _place(sys._current_frames().get(thread)), computed))


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Returns a clock of the thread's CPU seconds; of the whole process if threads are not counted separately."""
    try:
        clock = time.pthread_getcpuclockid(thread)
    except (AttributeError, OSError):
        return time.process_time
    return lambda: time.clock_gettime(clock)


def _task(loop: asyncio.AbstractEventLoop) -> str:
    task = asyncio.current_task(loop)
    return task.get_name() if task is not None else ""


def _place(frame: FrameType | None) -> str:
    """The innermost two places in dray's own code: what is being done, and on whose behalf."""
    found: list[str] = []
    while frame is not None and len(found) < 2:
        path = frame.f_code.co_filename
        if path.startswith(_PACKAGE) and path != __file__:
            found.append(f"{path[len(_PACKAGE) + 1 :]}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " in ".join(found) or "outside dray's code"
