"""Options of notifications. The URL may hold a secret: it is neither logged nor stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NotificationOptions:
    url: str = ""
    """URL that notifications are sent to by POST, as JSON."""
    command: tuple[str, ...] = ()
    """Program and arguments; it reads the notification as JSON from stdin."""
    waiting_seconds: float = 1800.0
    """Seconds that a pod may be pending before a notification is sent; 0: never."""

    def __bool__(self) -> bool:
        return bool(self.url or self.command)

    def __repr__(self) -> str:
        return f"NotificationOptions(url={'…' if self.url else ''!r}, waiting_seconds={self.waiting_seconds})"


NO_NOTIFICATIONS: Final = NotificationOptions()
