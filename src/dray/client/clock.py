"""Wall-clock time: an interface that tests replace, and timestamps as Kubernetes writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from time import time as system_seconds
from typing import Protocol


class TimeOfDay(Protocol):
    def now(self) -> datetime:
        """In UTC."""
        ...


class SystemTime:
    def now(self) -> datetime:
        return datetime.now(UTC)


def seconds(time: TimeOfDay) -> Callable[[], float]:
    """The same as a number, since 1970; of the system it is asked without a detour."""
    return system_seconds if isinstance(time, SystemTime) else lambda: time.now().timestamp()


def timestamp(moment: datetime) -> str:
    """As in `metadata.creationTimestamp`: whole seconds."""
    return _whole_second(moment.timestamp() // 1)


# Many things happen in a second, and writing it down costs more than looking it up.
@lru_cache(maxsize=8)
def _whole_second(since_1970: float) -> str:
    return datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """As in a Lease's `renewTime`: with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> datetime:
    """The other way; raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
