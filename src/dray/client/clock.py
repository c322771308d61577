"""The time of day, as a part that is handed in, and as Kubernetes writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class TimeOfDay(Protocol):
    def now(self) -> datetime:
        """In UTC."""
        ...


class SystemTime:
    def now(self) -> datetime:
        return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """As in `metadata.creationTimestamp`: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """As in a Lease's `renewTime`: with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> datetime:
    """The other way; raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
