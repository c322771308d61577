"""Unexpected errors, limited to the object that caused them.

Code that handles many objects catches the error of a single one, passes it to `State.report` and continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Report = Callable[[str, Exception], None]
"""Called with a description of what was being done, and the error."""

_MOST_TEXT: Final = 200


def ignore(_: str, __: Exception) -> None:
    """A Report that does nothing."""


def text(error: BaseException) -> str:
    """The type and message of an error, in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:_MOST_TEXT]}" if message else type(error).__name__
