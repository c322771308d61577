"""Tells objects whose regular expressions may take long to compile from others, by a look at their text.

Others are checked in the event loop. Only counted repetition and Unicode classes make a program that is much longer
than its pattern. Schemas of custom kinds have patterns as they are; CEL literals may escape any character of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dray.api.objects import Object

_EXPANDING: Final = re.compile(r"\{\s*\d|\\[pP]|[(]\?[a-zA-Z]*i")
_CALLS: Final = ("matches", "find")
_CALLS_IN_JSON: Final = tuple(name.encode() for name in _CALLS)
_MANY_PATTERNS: Final = 100


def in_expressions(document: Object) -> bool:
    """Returns True if a CEL expression in the document may compile a pattern.

    Escapes in string literals can hide the pattern, but not the call.
    """
    text = msgspec.json.encode(document)
    return any(name in text for name in _CALLS_IN_JSON)


def in_schema(schema: Object) -> bool:
    """Returns True if checking a custom object may compile very long or very many patterns."""
    patterns = list(_texts(schema, "pattern"))
    if len(patterns) > _MANY_PATTERNS or any(map(_EXPANDING.search, patterns)):
        return True
    return any(map(_calls_pattern, _texts(schema, "rule"))) or any(
        map(_calls_pattern, _texts(schema, "messageExpression"))
    )


def _calls_pattern(text: str) -> bool:
    return any(name in text for name in _CALLS)


def _texts(value: Any, member: str) -> Iterator[str]:
    """Yields every string of that member name, at any depth of the value."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            text = current.get(member)
            if isinstance(text, str):
                yield text
            waiting += current.values()
        elif isinstance(current, list):
            waiting += current
