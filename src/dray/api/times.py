"""Times that follow from numbers in objects, however large these are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def after(start: datetime, seconds: float) -> datetime:
    """So many seconds later; where the calendar ends before that, its end."""
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)
