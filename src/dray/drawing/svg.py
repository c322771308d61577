"""Pieces of SVG as text. Sizes and positions are in pixels, and texts are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from dray.api.printable import printable

INK: Final = "#202124"
GREY: Final = "#5f6368"
LINE: Final = "#bdc1c6"
_FONT: Final = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Box:
    """A group of shapes of known size; `at` places it."""

    width: int
    height: int
    draw: Sequence[str]
    """Pieces of SVG, relative to the upper left corner of the box."""

    def at(self, x: int, y: int) -> str:
        return f'<g transform="translate({x},{y})">{"".join(self.draw)}</g>'


def document(width: int, height: int, parts: Iterable[str]) -> str:
    """Returns a picture with a white background."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = f'font-family="{_FONT}" font-size="11" fill="{INK}"'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return f"{head} {style}>\n{ground}\n" + "\n".join(parts) + "\n</svg>\n"


def text(
    x: float, y: float, words: str, *, bold: bool = False, grey: bool = False, fill: str = "", anchor: str = ""
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    fill = GREY if grey else fill
    color = f" fill={quoteattr(fill)}" if fill else ""
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{weight}{color}{place}>{_escaped(words)}</text>'


def title(words: str) -> str:
    """Returns a tooltip, which browsers show when the pointer is on the shape."""
    return f"<title>{_escaped(words)}</title>"


def _escaped(words: str) -> str:
    """Returns the text for XML, which has no form for control characters."""
    return escape(printable(words))


def cut(words: str, letters: int) -> str:
    """Returns the words, cut at this number of letters."""
    return words if len(words) <= letters else f"{words[: letters - 1]}…"


def polyline(points: Iterable[tuple[float, float]], stroke: str, *, width: float = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" stroke="{stroke}" stroke-width="{width:g}" fill="none"/>'
