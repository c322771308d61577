"""Bars of several parts, one for each name, over one scale, with a legend and the figures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dray.drawing.colors import CATEGORIES
from dray.drawing.svg import Box, cut, text, title

WIDTH: Final = 640
_LEFT, _RIGHT, _TOP = 210, 150, 54
_ROW, _HIGH = 26, 14
_GROUND: Final = "#eef0f2"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    values: Sequence[float]
    """One for each part of the chart, drawn one after the other."""
    figures: str


@dataclass(frozen=True, slots=True)
class BarChart:
    title: str
    parts: Sequence[str]
    """Names of the parts, in the order of the values; at most as many as there are CATEGORIES."""
    bars: Sequence[Bar]

    def box(self) -> Box:
        most = max((sum(bar.values) for bar in self.bars), default=0.0) or 1.0
        drawn = [text(10, 18, self.title, bold=True), *self._legend()]
        for number, bar in enumerate(self.bars):
            drawn += _row(bar, self.parts, _TOP + number * _ROW, most)
        return Box(WIDTH, _TOP + len(self.bars) * _ROW + 10, drawn)

    def _legend(self) -> list[str]:
        drawn, x = [], 10
        for name, color in zip(self.parts, CATEGORIES, strict=False):
            drawn += [_rect(x, 28, 10, 10, color), text(x + 15, 37, name)]
            x += 30 + 6 * len(name)
        return drawn


def _row(bar: Bar, names: Sequence[str], y: int, most: float) -> list[str]:
    scale = (WIDTH - _LEFT - _RIGHT) / most
    drawn = [
        f"<g>{title(bar.label)}{text(_LEFT - 8, y + 11, cut(bar.label, 32), anchor='end')}</g>",
        _rect(_LEFT, y, WIDTH - _LEFT - _RIGHT, _HIGH, _GROUND),
        text(WIDTH - _RIGHT + 8, y + 11, bar.figures, grey=True),
    ]
    x = float(_LEFT)
    for name, value, color in zip(names, bar.values, CATEGORIES, strict=False):
        drawn.append(f"<g>{title(f'{bar.label}: {name}')}{_rect(x, y, value * scale, _HIGH, color)}</g>")
        x += value * scale
    return drawn


def _rect(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{color}"/>'
