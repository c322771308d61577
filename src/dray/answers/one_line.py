"""Text from elsewhere as one printable line."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 400


def one_line(message: str) -> str:
    """Line ends and control characters made visible, and no endless values."""
    start = message[: _LONGEST + 1]
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in start)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."
