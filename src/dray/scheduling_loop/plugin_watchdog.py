"""PluginWatchdog: interrupts a plugin of a user that does not answer, by a signal in the scheduler's own thread.

A timer (SIGALRM) ticks 20 times a second while plugins are asked. A tick that falls into a call is charged to the
plugin's budget, and raises Overrun in it once the budget is spent. Waiting (a sleep, a socket) is interrupted as
computing is. A tick between calls does nothing, and after a quiet second the timer stops.

The way was chosen by what it adds to a call of a filter that reads one label (0.27 µs; Python 3.11, one core):

    sampling by a timer, as here                  0.3 µs
    a clock read before and after                 0.7 µs
    a lock shared with a watching thread          0.7 µs    cannot interrupt a sleep
    a timer set and cleared for each call         1.7 µs
    counting lines (sys.settrace)                 1.4 µs    7 times slower inside the plugin, and no coverage of it
    counting branches (sys.monitoring, 3.12)      5 µs      7 times slower inside the plugin

Two limits. Signals reach the main thread only: a scheduler in another thread (`dray.testing.threaded`) has no limit. A
single call into C that does not return, such as a hopeless regular expression, is interrupted when it returns; what it
computed is then charged in full.
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from dray.scheduling.core.guarded_plugin import Budget, Overrun

_TICK: Final = 0.05
_QUIET_TICKS: Final = 20


class PluginWatchdog:
    def __init__(self) -> None:
        self._budget: Budget | None = None
        """The budget of the plugin that is being called; None between calls."""
        self._armed = False
        self._quiet = 0
        self._computed = 0.0
        self._before: Any = None
        """The signal handler that was set before."""

    def call(self, budget: Budget, function: Callable[..., Any], *args: Any) -> Any:
        self._budget = budget
        if not self._armed:
            self._arm()
        try:
            return function(*args)
        finally:
            self._budget = None

    def close(self) -> None:
        """Stops the timer and restores the former signal handler."""
        self._stop()
        if self._before is not None:
            signal.signal(signal.SIGALRM, self._before)
            self._before = None
            atexit.unregister(self.close)

    def _arm(self) -> None:
        self._armed = True
        if threading.current_thread() is not threading.main_thread():
            return
        if self._before is None:
            self._before = signal.signal(signal.SIGALRM, self._tick) or signal.SIG_DFL
            # A tick after the interpreter has let go of the handler would kill the process.
            atexit.register(self.close)
        self._quiet = 0
        self._computed = time.thread_time()
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)

    def _stop(self) -> None:
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._armed = False

    def _tick(self, _: int, frame: FrameType | None) -> None:
        budget, computed = self._budget, time.thread_time()
        took, self._computed = computed - self._computed, computed
        if budget is None:
            self._quiet += 1
            if self._quiet >= _QUIET_TICKS:
                self._stop()
            return
        self._quiet = 0
        # Ticks that were due during one call into C came as one.
        budget.left -= max(_TICK, took)
        # In `call` itself the plugin has answered, or has not begun.
        if budget.left <= 0 and frame is not None and frame.f_code is not _CALL:
            raise Overrun


_CALL: Final = PluginWatchdog.call.__code__
