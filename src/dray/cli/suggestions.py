"""What to write instead of a name that does not exist: a similar name, or a list of the names there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LISTED = 8


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Returns "did you mean gpu?"; empty if no known name is similar. Upper and lower case count as similar."""
    by_lower_case = {each.lower(): each for each in sorted(known)}
    similar = difflib.get_close_matches(name.lower(), by_lower_case, n=most)
    return f"did you mean {' or '.join(by_lower_case[each] for each in similar)}?" if similar else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a similar name as a question, or else the known names."""
    names = sorted(set(known))
    if question := did_you_mean(name, names):
        return question
    rest = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"there are: {', '.join(names[:_MOST_LISTED]) or 'none'}{rest}"
