"""Regular expressions: `matches`, `find`, `findAll`. RE2, so that no pattern takes more than linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.size_limit import spend
from dray.cel.values import Value

MATCHES: Final = Library("matches")
LIBRARY: Final = Library("regex")

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20
_FREE_WORK: Final = 4096


@lru_cache(maxsize=32)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; raises EvaluationError."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise EvaluationError(f"error parsing regexp: {text}") from None


def _afford(pattern: Any, text: str) -> None:
    """RE2 is linear in the text, but also in the size of the program that a pattern with repetitions becomes."""
    work = pattern.programsize * len(text)
    if work > _FREE_WORK:
        spend(work)


def matches(value: Value, pattern: Value) -> bool:
    if type(value) is not str or type(pattern) is not str:
        raise no_such_overload("matches")
    compiled = compile_pattern(pattern)
    _afford(compiled, value)
    return compiled.search(value) is not None


def find(value: Value, pattern: Value) -> str:
    if type(value) is not str or type(pattern) is not str:
        raise no_such_overload("find")
    compiled = compile_pattern(pattern)
    _afford(compiled, value)
    match = compiled.search(value)
    return "" if match is None else str(match.group())


def find_all(value: Value, pattern: Value, limit: Value = -1) -> list[Value]:
    if type(value) is not str or type(pattern) is not str or type(limit) is not int:
        raise no_such_overload("findAll")
    found: list[Value] = []
    if limit == 0:
        return found
    compiled = compile_pattern(pattern)
    _afford(compiled, value)
    for match in compiled.finditer(value):
        found.append(match.group())
        if len(found) == limit:
            break
    return found


_SIGNATURES: Final = ("matches: (string, string) -> bool", "matches_string: string.(string) -> bool")
MATCHES.function("matches", matches, *_SIGNATURES)
LIBRARY.function("matches", matches, *_SIGNATURES)
LIBRARY.function("find", find, "string_find_string: string.(string) -> string")
LIBRARY.function(
    "findAll",
    find_all,
    "string_find_all_string: string.(string) -> list<string>",
    "string_find_all_string_int: string.(string, int) -> list<string>",
)
