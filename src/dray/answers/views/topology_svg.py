"""The topology of nodes as an SVG picture: boxes within boxes, devices coloured by their state.

A device has a fixed size, and a box is as large as its contents. The picture is plain SVG 1.1 without scripts or fonts.
The whole text about a device is in its title, which browsers show as a tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dray.allocation.device_states import STATES, DeviceState
from dray.answers.views.device_tables import state_text
from dray.answers.views.topology_model import Entry, Spot, kind_text
from dray.answers.views.topology_text import count_text, holder_texts, name_range, similar_entries
from dray.drawing import svg
from dray.drawing.colors import STATES as COLORS
from dray.drawing.colors import pale
from dray.drawing.svg import Box

_WIDE, _HIGH, _GAP, _HEAD, _EDGE = 176, 46, 8, 24, 5
_PER_ROW: Final = {"node": 2, "socket": 2, "numa": 4, "root": 1}
_FILLS: Final = {"node": "#ffffff", "socket": "#f8f9fa", "numa": "#f1f3f4", "root": "#ffffff"}
_TITLES: Final = {"node": "{}", "socket": "socket {}", "numa": "NUMA node {}", "root": "{}"}
_LETTERS: Final = 27


def svg_of(nodes: Sequence[Spot]) -> str:
    boxes = [_spot(node) for node in nodes]
    legend = _legend()
    width = max([legend.width, *(box.width for box in boxes)]) + 2 * _GAP
    y, parts = _GAP, []
    for box in (legend, *boxes):
        parts.append(box.at(_GAP, y))
        y += box.height + _GAP
    return svg.document(width, y, parts)


def _spot(spot: Spot) -> Box:
    entries = [box for alike in similar_entries(spot.entries) for box in _boxes(alike)]
    body = _flow(entries, 1 if spot.kind == "root" else 4)
    rooms = _flow([_spot(child) for child in spot.spots], _PER_ROW[spot.kind])
    notes = [f"{title}: {', '.join(names)}" for title, names in spot.links]
    inner = [box for box in (body, rooms) if box.height]
    width = max([_WIDE, *(box.width for box in inner)]) + 2 * _GAP
    y, parts = _HEAD, []
    for box in inner:
        parts.append(box.at(_GAP, y))
        y += box.height + _GAP
    for note in notes:
        parts.append(svg.text(_GAP, y + 12, svg.cut(note, width // 6)))
        y += 18
    title = _TITLES[spot.kind].format(spot.name)
    if spot.kind in ("node", "numa"):
        title += f" · {count_text(spot.all_entries())}"
    frame = f'<rect width="{width}" height="{y}" rx="6" fill="{_FILLS[spot.kind]}" stroke="{svg.LINE}"/>'
    return Box(width, y, [frame, svg.text(_GAP, 16, svg.cut(title, width // 6), bold=True), *parts])


def _boxes(alike: list[Entry]) -> Iterator[Box]:
    """Yields one box for many similar devices, else boxes of the device and of its partitions in use."""
    first = alike[0]
    if len(alike) > 1:
        yield _device(first.state, f"{len(alike)} × {kind_text(first) or first.state.place[0]}", name_range(alike))
        return
    for entry in (first, *(Entry(part) for part in first.parts if part.holders)):
        yield _device(entry.state, kind_text(entry), entry.name)


def _flow(boxes: Sequence[Box], per_row: int) -> Box:
    """Returns a box with these boxes in rows of `per_row`."""
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
    edge = COLORS[state.state]
    held = ", ".join(holder_texts(state))
    full = " · ".join(filter(None, (name, kind, state_text(state), held)))
    second = kind or state.place[0]
    third = ", ".join(pod for holder in state.holders for pod in holder.pods) or held or state.state
    if used := next(iter(state.used().values()), None):
        third = f"{used[0]} of {used[1]}: {third}"
    parts = [
        svg.title(full),
        f'<rect width="{_WIDE}" height="{_HIGH}" rx="4" fill="{pale(edge)}" stroke="{edge}"/>',
        f'<rect width="{_EDGE}" height="{_HIGH}" rx="2" fill="{edge}"/>',
        _bar(state, edge),
        svg.text(10, 14, svg.cut(name, _LETTERS), bold=True),
        svg.text(10, 27, svg.cut(second, _LETTERS), grey=True),
        svg.text(10, 40, svg.cut(third, _LETTERS)),
    ]
    return Box(_WIDE, _HIGH, parts)


def _bar(state: DeviceState, colour: str) -> str:
    """Returns a bar at the lower edge of a shared device: how much of it is in use."""
    shares = [amount.as_float() / total.as_float() for amount, total in state.used().values() if total.sign()]
    if not shares:
        return ""
    width = round(_WIDE * min(max(shares), 1.0))
    return f'<rect y="{_HIGH - 3}" width="{width}" height="3" fill="{colour}"/>'


def _legend() -> Box:
    parts, x = [], 0
    for state in STATES:
        edge = COLORS[state]
        parts.append(f'<rect x="{x}" width="12" height="12" rx="2" fill="{edge}" stroke="{edge}"/>')
        parts.append(svg.text(x + 17, 10, state))
        x += 80
    return Box(x, 14, parts)
