"""Outages: when something is down, as a schedule that follows from a rule and a seed. Pure.

Times are seconds since the beginning of a machine, so that a run that is interrupted goes on with the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from dray.fleet.stages import DeviceStage, NodeStage, seconds

Interval = tuple[float, float]


class Outages:
    """The outages of one device or node by one rule. Times passed to `at` must not decrease."""

    def __init__(self, stage: DeviceStage | NodeStage, chance: Random) -> None:
        self._sequences = [_Sequence(_fixed(stage, chance)), _Sequence(_random(stage, chance))]

    def at(self, time: float) -> tuple[bool, float | None]:
        """Returns whether it is down at this time, and the time of the next change; None for never."""
        found = [sequence.at(time) for sequence in self._sequences]
        changes = [change for _, change in found if change is not None]
        return any(down for down, _ in found), min(changes, default=None)


class _Sequence:
    def __init__(self, intervals: Iterator[Interval]) -> None:
        self._intervals = intervals
        self._next = next(intervals, None)

    def at(self, time: float) -> tuple[bool, float | None]:
        while self._next is not None and self._next[1] <= time:
            self._next = next(self._intervals, None)
        if self._next is None:
            return False, None
        start, end = self._next
        return (True, end) if start <= time else (False, start)


def _fixed(stage: DeviceStage | NodeStage, chance: Random) -> Iterator[Interval]:
    for start in sorted(stage.at_seconds):
        yield start, start + seconds(stage.down_seconds, chance)


def _random(stage: DeviceStage | NodeStage, chance: Random) -> Iterator[Interval]:
    if stage.every_seconds is None:
        return
    time, number = 0.0, 0
    while not stage.times or number < stage.times:
        start = time + chance.expovariate(1 / stage.every_seconds)
        # A moment at least, so that the sequence always comes on.
        time = start + max(seconds(stage.down_seconds, chance), 0.1)
        number += 1
        yield start, time


def soonest(changes: Iterable[float | None]) -> float | None:
    return min((change for change in changes if change is not None), default=None)
