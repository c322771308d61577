"""Time: the wall clock as an interface that tests replace, timestamps as Kubernetes writes them, and durations.

The wall clock may be set by hours in either direction while a process runs. Durations are measured without it:
`steady_seconds` for what begins and ends in this process, `Deadlines` for moments that the API server's objects name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from time import time as system_seconds
from typing import Final, Protocol

# A wall clock that changes by less may have been slewed.
_STEP_SECONDS: Final = 1.0


class TimeOfDay(Protocol):
    def now(self) -> datetime:
        """Returns the present time in UTC."""
        ...


class SystemTime:
    def now(self) -> datetime:
        return datetime.now(UTC)


def seconds(time: TimeOfDay) -> Callable[[], float]:
    """Returns a function for the seconds since 1970; for the system's clock it is `time.time`."""
    return system_seconds if isinstance(time, SystemTime) else lambda: time.now().timestamp()


def steady_seconds(time: TimeOfDay) -> Callable[[], float]:
    """Returns a function for measuring durations, not affected by changes of the wall clock.

    A clock that a test hands in is used as it is.
    """
    return monotonic if isinstance(time, SystemTime) else lambda: time.now().timestamp()


def anchored_seconds(time: TimeOfDay) -> Callable[[], float]:
    """Returns `steady_seconds` counted from 1970, for durations that are kept in files."""
    if not isinstance(time, SystemTime):
        return lambda: time.now().timestamp()
    start = system_seconds() - monotonic()
    return lambda: start + monotonic()


class ForwardSeconds:
    """Seconds since 1970 by the wall clock; if it is set back, they go on from the highest value.

    For durations that are compared with times in objects: nothing waits for hours for a time that has passed.
    """

    def __init__(self, wall: Callable[[], float] = system_seconds, steady: Callable[[], float] = monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._seen = wall(), steady()
        self._ahead = 0.0

    def __call__(self) -> float:
        wall, steady = self._wall(), self._steady()
        expected = self._seen[0] + steady - self._seen[1]
        if wall < expected - _STEP_SECONDS:
            self._ahead += expected - wall
        self._seen = wall, steady
        return wall + self._ahead


def forward_seconds(time: TimeOfDay) -> Callable[[], float]:
    return ForwardSeconds() if isinstance(time, SystemTime) else lambda: time.now().timestamp()


class Deadlines:
    """Measures the time until moments of the wall clock, each from the first question about it."""

    def __init__(self, time: TimeOfDay) -> None:
        self._time = time
        self._steady = steady_seconds(time)
        self._known: dict[Hashable, tuple[datetime, float]] = {}

    def left(self, key: Hashable, when: datetime) -> float:
        """Returns the seconds until the moment; a changed moment of a key is measured anew."""
        known = self._known.get(key)
        if known is None or known[0] != when:
            known = self._known[key] = when, self._steady() + (when - self._time.now()).total_seconds()
        return known[1] - self._steady()

    def forget(self, key: Hashable) -> None:
        self._known.pop(key, None)


def timestamp(moment: datetime) -> str:
    """Formats a time as `metadata.creationTimestamp`, in whole seconds."""
    return _whole_second(moment.timestamp() // 1)


# Formatting costs more than a cache lookup, and many events share a second.
@lru_cache(maxsize=8)
def _whole_second(since_1970: float) -> str:
    return datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """Formats a time as a Lease's `renewTime`, with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> datetime:
    """Parses a timestamp; raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
