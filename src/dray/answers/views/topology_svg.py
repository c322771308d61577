"""The topology of nodes as an SVG picture: boxes within boxes, devices coloured by their state.

Sizes are worked out from the inside: a device has a fixed size, a box is as large as what it holds. Everything is plain
SVG 1.1 without scripts or fonts of its own; the whole text of a device is in its title, which browsers show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dray.allocation.device_states import STATES, DeviceState
from dray.answers.views.device_tables import described
from dray.answers.views.topology_model import Entry, Spot, what
from dray.answers.views.topology_text import groups, holder, span, tally
from dray.drawing import svg
from dray.drawing.svg import Box

_COLOURS: Final = {
    "free": ("#e6f4ea", "#34a853"),
    "allocated": ("#fde8d7", "#e8710a"),
    "shared": ("#e4edfd", "#4285f4"),
    "tainted": ("#fce8e6", "#d93025"),
    "blocked": ("#eceff1", "#80868b"),
}
_WIDE, _HIGH, _GAP, _HEAD = 176, 46, 8, 24
_PER_ROW: Final = {"node": 2, "socket": 2, "numa": 4, "root": 1}
_FILLS: Final = {"node": "#ffffff", "socket": "#f8f9fa", "numa": "#f1f3f4", "root": "#ffffff"}
_TITLES: Final = {"node": "{}", "socket": "socket {}", "numa": "NUMA node {}", "root": "{}"}
_LETTERS: Final = 27


def svg_of(nodes: Sequence[Spot]) -> str:
    boxes = [_spot(each) for each in nodes]
    legend = _legend()
    width = max([legend.width, *(each.width for each in boxes)]) + 2 * _GAP
    y, parts = _GAP, []
    for each in (legend, *boxes):
        parts.append(each.at(_GAP, y))
        y += each.height + _GAP
    return svg.document(width, y, parts)


def _spot(spot: Spot) -> Box:
    entries = [box for alike in groups(spot.entries) for box in _boxes(alike)]
    body = _flow(entries, 1 if spot.kind == "root" else 4)
    rooms = _flow([_spot(each) for each in spot.spots], _PER_ROW[spot.kind])
    notes = [f"{title}: {', '.join(names)}" for title, names in spot.links]
    inner = [each for each in (body, rooms) if each.height]
    width = max([_WIDE, *(each.width for each in inner)]) + 2 * _GAP
    y, parts = _HEAD, []
    for each in inner:
        parts.append(each.at(_GAP, y))
        y += each.height + _GAP
    for note in notes:
        parts.append(svg.text(_GAP, y + 12, svg.cut(note, width // 6)))
        y += 18
    title = _TITLES[spot.kind].format(spot.name)
    if spot.kind in ("node", "numa"):
        title += f" · {tally(spot.all_entries())}"
    frame = f'<rect width="{width}" height="{y}" rx="6" fill="{_FILLS[spot.kind]}" stroke="{svg.LINE}"/>'
    return Box(width, y, [frame, svg.text(_GAP, 16, svg.cut(title, width // 6), bold=True), *parts])


def _boxes(alike: list[Entry]) -> Iterator[Box]:
    """Of many one; of a device also those of its partitions that somebody has."""
    first = alike[0]
    if len(alike) > 1:
        yield _device(first.state, f"{len(alike)} × {what(first) or first.state.place[0]}", span(alike))
        return
    for entry in (first, *(Entry(each) for each in first.parts if each.holders)):
        yield _device(entry.state, what(entry), entry.name)


def _flow(boxes: Sequence[Box], per_row: int) -> Box:
    """Side by side, so many in a row."""
    x = y = width = height = 0
    parts = []
    for number, box in enumerate(boxes):
        if number and number % per_row == 0:
            x, y, height = 0, y + height + _GAP, 0
        parts.append(box.at(x, y))
        x, height = x + box.width + _GAP, max(height, box.height)
        width = max(width, x - _GAP)
    return Box(width, y + height if boxes else 0, parts)


def _device(state: DeviceState, kind: str, name: str) -> Box:
    fill, edge = _COLOURS[state.state]
    held = ", ".join(holder(state))
    full = " · ".join(filter(None, (name, kind, described(state), held)))
    second = kind or state.place[0]
    third = ", ".join(pod for each in state.holders for pod in each.pods) or held or state.state
    if used := next(iter(state.used().values()), None):
        third = f"{used[0]} of {used[1]}: {third}"
    parts = [
        svg.title(full),
        f'<rect width="{_WIDE}" height="{_HIGH}" rx="4" fill="{fill}" stroke="{edge}"/>',
        _bar(state, edge),
        svg.text(8, 14, svg.cut(name, _LETTERS), bold=True),
        svg.text(8, 27, svg.cut(second, _LETTERS), grey=True),
        svg.text(8, 40, svg.cut(third, _LETTERS)),
    ]
    return Box(_WIDE, _HIGH, parts)


def _bar(state: DeviceState, colour: str) -> str:
    """How much of a shared device is in use, at its lower edge."""
    shares = [amount.as_float() / total.as_float() for amount, total in state.used().values() if total.sign()]
    if not shares:
        return ""
    width = round(_WIDE * min(max(shares), 1.0))
    return f'<rect y="{_HIGH - 3}" width="{width}" height="3" fill="{colour}"/>'


def _legend() -> Box:
    parts, x = [], 0
    for state in STATES:
        fill, edge = _COLOURS[state]
        parts.append(f'<rect x="{x}" width="12" height="12" rx="2" fill="{fill}" stroke="{edge}"/>')
        parts.append(svg.text(x + 17, 10, state))
        x += 80
    return Box(x, 14, parts)
