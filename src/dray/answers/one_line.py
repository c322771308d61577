"""Text from elsewhere as one printable line."""

from __future__ import annotations

from typing import Final

from dray.api.printable import printable

_LONGEST: Final = 400


def one_line(message: str) -> str:
    """Line ends and control characters made visible, and no endless values."""
    shown = printable(message[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."
