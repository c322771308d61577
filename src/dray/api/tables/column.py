"""A column, the two that nearly every kind has, and durations as people read them: 45s, 3m20s, 5h, 2d3h."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dray.api.objects import Object

Cell = Callable[[Object, str], Any]

NONE = "<none>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


@dataclass(frozen=True, slots=True)
class Column:
    """`wide` columns are shown by `kubectl get -o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False

    @property
    def priority(self) -> int:
        return int(self.wide)


def created(obj: Object, now: str) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME = Column("Name", lambda obj, now: obj["metadata"].get("name", ""), format="name")
AGE = Column("Age", created)


def seconds_between(start: str, end: str) -> int:
    return int((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def age(since: str | None, now: str) -> str:
    """Renders the time since a moment; `<unknown>` if it is not set."""
    return human(seconds_between(since, now)) if since else "<unknown>"


def human(seconds: int) -> str:
    """Renders a duration: two units for short ones, else one."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, unit: int, name: str, small_unit: int, small_name: str) -> str:
    small = seconds % unit // small_unit
    return f"{seconds // unit}{name}" + (f"{small}{small_name}" if small else "")
