"""Suggestions for a name that was probably misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

_MOST_COMPARED: Final = 500
_MOST_LISTED: Final = 8


def closest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is most like `name`; empty if none is. Upper and lower case count as the same."""
    return next(iter(_similar(name, known, 1)), "")


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Returns "did you mean gpu?" with the closest names; empty if no known name is similar."""
    similar = _similar(name, known, most)
    return f"did you mean {' or '.join(similar)}?" if similar else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a question with the closest name, or else the names that there are."""
    names = sorted(set(islice(known, _MOST_COMPARED)))
    if question := did_you_mean(name, names):
        return question
    if not names:
        return "there are none"
    more = len(names) - _MOST_LISTED
    return f"there are: {', '.join(names[:_MOST_LISTED])}{f' and {more} more' if more > 0 else ''}"


def _similar(name: str, known: Iterable[str], most: int) -> list[str]:
    by_lower_case = {each.lower(): each for each in sorted(islice(known, _MOST_COMPARED), reverse=True)}
    return [by_lower_case[match_] for match_ in difflib.get_close_matches(name.lower(), by_lower_case, n=most)]
