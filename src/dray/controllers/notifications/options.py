"""Options of notifications. The URL may hold a secret: it is neither logged nor stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NotificationOptions:
    url: str = ""
    """Notifications are sent to it by POST, as JSON."""
    command: tuple[str, ...] = ()
    """The program and its arguments; it reads the JSON from its standard input."""
    waiting_seconds: float = 1800.0
    """How long a pod may wait for a node before it is told; 0 for ever."""

    def __bool__(self) -> bool:
        return bool(self.url or self.command)

    def __repr__(self) -> str:
        return f"NotificationOptions(url={'…' if self.url else ''!r}, waiting_seconds={self.waiting_seconds})"


NO_NOTIFICATIONS: Final = NotificationOptions()
