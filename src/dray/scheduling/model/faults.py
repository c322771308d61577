"""Errors that nobody expected, kept to the object they came up with.

Whoever handles one object after the other catches what a single one raises, tells it to `State.report` and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Report = Callable[[str, Exception], None]
"""Told what was being done, and the error."""

_MOST_TEXT: Final = 200


def ignore(_: str, __: Exception) -> None:
    """For those who do not want to know."""


def text(error: BaseException) -> str:
    """What an error says, in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:_MOST_TEXT]}" if said else type(error).__name__
