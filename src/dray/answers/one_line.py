"""Makes one printable line of any text."""

from __future__ import annotations

from typing import Final

from dray.api.printable import printable

_LONGEST: Final = 400


def one_line(message: str) -> str:
    """Returns the text in one line, with control characters escaped, cut at 400 characters."""
    shown = printable(message[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."
