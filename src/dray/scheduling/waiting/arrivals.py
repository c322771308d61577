"""Arrivals: the order in which pods of one priority are tried, by when they were created and then by when they came.

All pods of a group have one place in it: that of the group, or of the one at the top of its tree.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from dray.api.times import seconds_of

_SECOND: Final = 1 << 30
"""How many may be created in one second: these are ordered as they were seen."""


class Arrivals:
    def __init__(self) -> None:
        self._number = 0
        self._latest = 0
        """When the youngest that was seen was created, in seconds."""
        self._groups: dict[Hashable, int] = {}
        self._waiting_since: dict[Hashable, float] = {}
        """Groups that could not be placed, since when."""

    def of(self, group: Hashable = None, created: str = "") -> int:
        """Returns the place of a pod or group; that of its group where this has one."""
        known = self._groups.get(group) if group is not None else None
        return known if known is not None else self._next(seconds_of(created))

    def _next(self, seconds: float | None = None) -> int:
        """Returns a place behind all others if it is not known when the pod was created."""
        created = max(0, int(seconds)) if seconds is not None else self._latest
        self._latest = max(self._latest, created)
        self._number += 1
        return created * _SECOND + self._number

    def put_group(self, group: Hashable, top: Hashable, created: str) -> int:
        """Returns the place of a group, which is that of the one at the top of its tree."""
        arrival = self._groups[top] = self._groups[group] = self.of(top, created)
        return arrival

    def remove_group(self, group: Hashable) -> None:
        self._groups.pop(group, None)
        self._waiting_since.pop(group, None)

    def postpone(self, group: Hashable, now: float, patience: float) -> int | None:
        """A group could not be placed: once that has been so for a while, returns its new place behind all others."""
        since = self._waiting_since.setdefault(group, now)
        if now < since + patience:
            return None
        del self._waiting_since[group]
        arrival = self._groups[group] = self._next()
        return arrival

    def clock_set(self, seconds: float) -> None:
        self._waiting_since = {group: since + seconds for group, since in self._waiting_since.items()}
