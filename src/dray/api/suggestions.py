"""Suggestions for a name that was probably misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

_MOST_COMPARED: Final = 500
_MOST_LISTED: Final = 4


def closest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is most like `name`; empty if none is."""
    names = list(islice(known, _MOST_COMPARED))
    by_case = {each.lower(): each for each in reversed(names)}
    if name.lower() in by_case:
        return by_case[name.lower()]
    return next(iter(difflib.get_close_matches(name, names, n=1)), "")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a question with the closest name, or else the names that there are."""
    names = sorted(islice(known, _MOST_COMPARED))
    if similar := closest(name, names):
        return f"did you mean {similar}?"
    if not names:
        return "there are none"
    more = len(names) - _MOST_LISTED
    return f"there are: {', '.join(names[:_MOST_LISTED])}{f' and {more} more' if more > 0 else ''}"
