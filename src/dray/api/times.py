"""Times in objects: as numbers, as text, and those that follow from numbers, however large these are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any


def after(start: datetime, seconds: float) -> datetime:
    """Adds seconds; the result is limited to the range of datetime."""
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def seconds_of(text: Any) -> float | None:
    """Returns a timestamp as seconds since 1970; None if it is missing."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def text_of(seconds: float) -> str:
    """Returns seconds since 1970 as a timestamp, in whole seconds."""
    return after(datetime.fromtimestamp(0, UTC), seconds // 1).strftime("%Y-%m-%dT%H:%M:%SZ")
