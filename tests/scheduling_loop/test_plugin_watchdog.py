"""A plugin that does not answer is interrupted, wherever it is, and costs the scheduler no more than its budget."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from dray.scheduling.core.guarded_plugin import Budget, Overrun
from dray.scheduling_loop.plugin_watchdog import PluginWatchdog

QUICK = 0.2


@pytest.fixture
def watchdog():
    made = PluginWatchdog()
    yield made
    made.close()


def computes():
    while True:
        pass


def waits():
    time.sleep(3600)


def catches_everything():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(3600)


def catches_even_that():
    try:
        computes()
    except BaseException:
        waits()


@pytest.mark.parametrize("hangs", [computes, waits, catches_everything, catches_even_that])
def test_it_is_interrupted(watchdog, hangs):
    budget = Budget(QUICK)
    began = time.monotonic()
    with pytest.raises(Overrun):
        watchdog.call(budget, hangs)
    assert time.monotonic() - began < 30
    assert budget.left <= 0


def test_what_was_spent_is_charged_over_calls(watchdog):
    budget = Budget(QUICK)
    while budget.left > QUICK / 2:
        watchdog.call(budget, lambda: time.sleep(0.02))
    with pytest.raises(Overrun):
        watchdog.call(budget, waits)


def test_one_long_call_into_c_is_charged_in_full_when_it_returns(watchdog):
    budget = Budget(QUICK)
    watchdog.call(budget, lambda: None)
    with pytest.raises(Overrun):
        watchdog.call(budget, lambda: re.fullmatch("(a|a)*b", "a" * 23))


def test_nothing_outside_a_call_is_interrupted(watchdog):
    budget = Budget(0.01)
    watchdog.call(budget, lambda: None)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    assert budget.left == 0.01


def test_the_answer_and_the_error_come_through(watchdog):
    assert watchdog.call(Budget(), lambda one, two: one + two, 1, 2) == 3
    with pytest.raises(KeyError):
        watchdog.call(Budget(), lambda: {}["x"])


def test_it_leaves_the_signal_as_it_was():
    before = signal.getsignal(signal.SIGALRM)
    watchdog = PluginWatchdog()
    watchdog.call(Budget(), lambda: None)
    assert signal.getsignal(signal.SIGALRM) != before
    watchdog.close()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_process_that_ends_while_the_timer_runs_ends_well():
    program = "from dray.scheduling_loop.plugin_watchdog import *; PluginWatchdog().call(Budget(), print, 'done')"
    slow_end = "import time, sys; sys.modules['slow'] = type('Slow', (), {'__del__': lambda _: time.sleep(0.3)})()"
    done = subprocess.run([sys.executable, "-c", f"{slow_end}\n{program}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_in_another_thread_plugins_are_asked_without_a_limit(watchdog):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(watchdog.call(Budget(), lambda: 5)))
    thread.start()
    thread.join()
    assert answers == [5]
