"""Arrivals: the order in which pods of one priority are tried, by creation time, then in the order they were seen.

All pods of a group have the same place in the order: that of the group, or of the root of its tree.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from dray.api.times import seconds_of

_SECOND: Final = 1 << 30
"""The number of places for one second; pods that were created in the same second are ordered as they were seen."""


class Arrivals:
    def __init__(self) -> None:
        self._number = 0
        self._latest = 0
        """The creation time of the youngest pod or group that was seen, in seconds."""
        self._groups: dict[Hashable, int] = {}
        self._waiting_since: dict[Hashable, float] = {}
        """The time since which a group could not be placed, by group."""

    def of(self, group: Hashable = None, created: str = "") -> int:
        """Returns the place of a pod or group; the place of the group if it has one."""
        known = self._groups.get(group) if group is not None else None
        return known if known is not None else self._next(seconds_of(created))

    def _next(self, seconds: float | None = None) -> int:
        """Returns a place by creation time; a place behind all others if the time is not known."""
        created = max(0, int(seconds)) if seconds is not None else self._latest
        self._latest = max(self._latest, created)
        self._number += 1
        return created * _SECOND + self._number

    def put_group(self, group: Hashable, top: Hashable, created: str) -> int:
        """Sets and returns the place of a group, which is the place of the root of its tree."""
        arrival = self._groups[top] = self._groups[group] = self.of(top, created)
        return arrival

    def remove_group(self, group: Hashable) -> None:
        self._groups.pop(group, None)
        self._waiting_since.pop(group, None)

    def postpone(self, group: Hashable, now: float, patience: float) -> int | None:
        """Notes that a group could not be placed. After `patience` seconds, returns its new place behind all others."""
        since = self._waiting_since.setdefault(group, now)
        if now < since + patience:
            return None
        del self._waiting_since[group]
        arrival = self._groups[group] = self._next()
        return arrival

    def clock_set(self, seconds: float) -> None:
        self._waiting_since = {group: since + seconds for group, since in self._waiting_since.items()}
