"""Samples in rings: ten seconds apart for an hour, a minute for six hours, five minutes for a day.

Every ring is fed with the samples as they come, and keeps the mean of those that fall into one of its steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

Sample = Mapping[str, float]
"""Numbers by name; what could not be measured is missing."""
RINGS: Final = {1: (10, 360), 6: (60, 360), 24: (300, 288)}
"""By the hours that it holds: the step in seconds, and the number of steps."""
MOST_NAMES: Final = 64


class Ring:
    def __init__(self, step: int, length: int) -> None:
        self._step = step
        self._steps: deque[tuple[int, dict[str, tuple[float, int]]]] = deque(maxlen=length)

    def add(self, time: float, sample: Sample) -> None:
        """Samples come in order of time."""
        start = int(time // self._step) * self._step
        if not self._steps or self._steps[-1][0] != start:
            self._steps.append((start, {}))
        sums = self._steps[-1][1]
        for name, value in list(sample.items())[:MOST_NAMES]:
            total, number = sums.get(name, (0.0, 0))
            sums[name] = total + value, number + 1

    def points(self) -> dict[int, dict[str, float]]:
        """The means by the time at which their step begins."""
        return {
            start: {name: round(total / number, 2) for name, (total, number) in sums.items()}
            for start, sums in self._steps
        }


class Samples:
    def __init__(self) -> None:
        self._rings = {hours: Ring(step, length) for hours, (step, length) in RINGS.items()}

    def add(self, time: float, sample: Sample) -> None:
        for ring in self._rings.values():
            ring.add(time, sample)

    def points(self, hours: int) -> dict[int, dict[str, float]]:
        return self._rings[hours].points()
