"""Calls with a time limit: those that hang are given up, and hold up no others."""

import threading
import time

import pytest

from dray.drivers.gpu.nvml_calls import LimitedCalls, TimedOut

GENEROUS = 60


@pytest.fixture
def calls():
    return LimitedCalls()


class Hanging:
    """Work that hangs until it is released."""

    def __init__(self):
        self.released = threading.Event()

    def __call__(self):
        self.released.wait(GENEROUS)
        return "late"


def give_up(calls, hanging, key, late=None):
    with pytest.raises(TimedOut, match="no answer in"):
        calls.run(0.01, hanging, key, late)


def until(holds):
    end = time.monotonic() + GENEROUS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_results_and_errors_reach_the_caller(calls):
    assert calls.run(GENEROUS, lambda: 7, "a", None) == 7
    with pytest.raises(ZeroDivisionError):
        calls.run(GENEROUS, lambda: 1 // 0, "a", None)


def test_the_same_call_fails_at_once_while_one_hangs(calls):
    hanging = Hanging()
    give_up(calls, hanging, "a")
    with pytest.raises(TimedOut, match="an earlier call has not returned"):
        calls.run(GENEROUS, lambda: 1, "a", None)
    assert calls.run(GENEROUS, lambda: 2, "b", None) == 2
    hanging.released.set()
    until(lambda: not calls.hanging)
    assert calls.run(GENEROUS, lambda: 3, "a", None) == 3


def test_what_succeeds_too_late_is_undone(calls):
    hanging, undone = Hanging(), threading.Event()
    give_up(calls, hanging, "a", undone.set)
    hanging.released.set()
    assert undone.wait(GENEROUS)


def test_calls_get_less_time_while_many_hang(calls):
    hanging = Hanging()
    for key in range(3):
        give_up(calls, hanging, key)
    with pytest.raises(TimedOut, match="no answer in 0"):
        calls.run(GENEROUS, hanging, "more", None)
    hanging.released.set()


def test_calls_together_have_a_limit(calls):
    with calls.within(0.01):
        time.sleep(0.02)
        with pytest.raises(TimedOut, match="calls before it took too long"):
            calls.run(GENEROUS, lambda: 1, "a", None)
    assert calls.run(GENEROUS, lambda: 1, "a", None) == 1


def test_threads_are_used_again(calls):
    before = threading.active_count()
    for number in range(100):
        calls.run(GENEROUS, lambda: None, number, None)
    assert threading.active_count() <= before + 2
