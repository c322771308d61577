"""Durations do not depend on the wall clock, which may be set by hours."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dray.client.clock import Deadlines, ForwardSeconds, anchored_seconds, steady_seconds
from tests.set_clock import SetTime


class Clocks:
    """A wall clock that can be set, and the time that has passed really."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_forward_seconds_follow_the_wall_clock_but_never_back() -> None:
    clocks = Clocks()
    now = ForwardSeconds(lambda: clocks.wall, lambda: clocks.steady)
    clocks.pass_(10)
    assert now() == 1_000_010
    clocks.wall += 7200
    assert now() == 1_007_210
    clocks.wall -= 3 * 3600
    assert now() == pytest.approx(1_007_210)
    clocks.pass_(5)
    assert now() == pytest.approx(1_007_215)
    clocks.wall -= 60
    clocks.pass_(5)
    assert now() == pytest.approx(1_007_220)


@pytest.mark.parametrize("hours", [5, -5])
def test_deadlines_are_counted_from_when_they_were_seen(hours: int) -> None:
    time = SetTime()
    deadlines = Deadlines(time)
    when = time.now() + timedelta(seconds=60)
    assert 50 < deadlines.left("pod", when) <= 60
    time.set(hours=hours)
    assert 50 < deadlines.left("pod", when) <= 60
    # A moment that is told after the clock was set is one of the clock as it is now.
    assert 50 < deadlines.left("pod", time.now() + timedelta(seconds=60)) <= 60
    deadlines.forget("pod")
    assert abs(deadlines.left("pod", when) - (60 - hours * 3600)) < 10


def test_steady_seconds_pass_whatever_becomes_of_the_wall_clock() -> None:
    time = SetTime()
    for seconds in (steady_seconds(time), anchored_seconds(time)):
        before = seconds()
        time.set(hours=5)
        assert 0 <= seconds() - before < 10
    assert abs(anchored_seconds(SetTime())() - SetTime().now().timestamp()) < 10
