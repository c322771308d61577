"""Line charts: several lines over one scale, with grid, axis titles and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

from dray.drawing.colors import CATEGORIES
from dray.drawing.svg import Box, polyline, text

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 28, 40
_SAMPLE: Final = 14
"""The length of a piece of a line in the legend."""
_LEGEND_FROM: Final = 0.75
"""The legend begins at about this part of the horizontal scale."""
_GRID: Final = "#dddddd"


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    x_title: str
    series: Sequence[Series]
    top: float | None = None
    """The end of the vertical scale; by default a round number above all points."""
    bottom: float = 0.0
    """The start of the vertical scale."""

    def box(self) -> Box:
        points = [point for series in self.series for point in series.points]
        left, right = (min(x for x, _ in points), max(x for x, _ in points)) if points else (0.0, 1.0)
        most = self.top or _above(max((y for _, y in points), default=1.0))
        least = self.bottom
        inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

        def place(x: float, y: float) -> tuple[float, float]:
            across = inner_width * (x - left) / (right - left) if right > left else 0.0
            return _LEFT + across, HEIGHT - _BOTTOM - inner_height * (min(max(y, least), most) - least) / (most - least)

        parts = [text(_LEFT, 16, self.title, bold=True)]
        for part in range(6):
            value = least + (most - least) * part / 5
            height = place(left, value)[1]
            parts.append(polyline([(_LEFT, height), (WIDTH - _RIGHT, height)], _GRID))
            parts.append(text(_LEFT - 6, height + 4, f"{value:g}", anchor="end", grey=True))
        for part in range(5):
            x = left + (right - left) * part / 4
            parts.append(text(place(x, least)[0], HEIGHT - _BOTTOM + 14, f"{x:.4g}", anchor="middle", grey=True))
        parts.append(text(_LEFT + inner_width / 2, HEIGHT - 8, self.x_title, anchor="middle"))
        legend = HEIGHT - _BOTTOM - 8 - 14 * (len(self.series) - 1)
        right_end = [place(x, y) for x, y in points if right > left and (x - left) / (right - left) >= _LEGEND_FROM]
        if right_end and max(down for _, down in right_end) > legend - 14:
            # Lines run through the lower corner, where the legend is otherwise.
            legend = _TOP + 14
        for number, series in enumerate(self.series):
            color = CATEGORIES[number % len(CATEGORIES)]
            parts.append(polyline([place(x, y) for x, y in series.points], color, width=2))
            across = WIDTH - _RIGHT - 6
            down = legend + 14 * number
            parts.append(polyline([(across - _SAMPLE, down - 4), (across, down - 4)], color, width=3))
            parts.append(text(across - _SAMPLE - 6, down, series.label, anchor="end"))
        return Box(WIDTH, HEIGHT, parts)


def _above(value: float) -> float:
    """Returns the next larger round number: one, two or five times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)
