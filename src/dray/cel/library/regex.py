"""Regular expressions: `matches`, `find`, `findAll`. RE2, so that no pattern takes more than linear time."""

from __future__ import annotations

from typing import Any, Final

from dray.cel import patterns, size_limit
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.size_limit import spend
from dray.cel.values import Value

MATCHES: Final = Library("matches")
LIBRARY: Final = Library("regex")

_FREE_WORK: Final = 4096
# Of a pattern that is compiled while the expression runs.
_MOST_COMPUTED: Final = 10_000
_COMPUTED_MEMORY: Final = 2 << 20


def compile_literal(pattern: str) -> Any:
    """The compiled pattern, charged to the object that has the expression; raises EvaluationError."""
    try:
        return patterns.charged(pattern)
    except patterns.PatternError as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def _compiled(pattern: str) -> Any:
    """Charges a pattern that is no literal to the evaluation."""
    is_literal = size_limit.is_literal(pattern)
    try:
        compiled = patterns.compile_pattern(pattern, patterns.LARGEST if is_literal else _COMPUTED_MEMORY)
    except patterns.PatternError as error:
        size_limit.spend_instructions(_MOST_COMPUTED if error.instructions else 0)
        raise EvaluationError(f"error parsing regexp: {error}") from None
    if not is_literal:
        size_limit.spend_instructions(min(compiled.programsize, _MOST_COMPUTED))
        if compiled.programsize > _MOST_COMPUTED:
            raise EvaluationError("error parsing regexp: pattern too large - compile failed")
    return compiled


def _afford(pattern: Any, text: str) -> None:
    """RE2 is linear in the text, but also in the size of the program that a pattern with repetitions becomes."""
    work = pattern.programsize * len(text)
    if work > _FREE_WORK:
        spend(work)


def matches(value: Value, pattern: Value) -> bool:
    if type(value) is not str or type(pattern) is not str:
        raise no_such_overload("matches")
    compiled = _compiled(pattern)
    _afford(compiled, value)
    return compiled.search(value) is not None


def find(value: Value, pattern: Value) -> str:
    if type(value) is not str or type(pattern) is not str:
        raise no_such_overload("find")
    compiled = _compiled(pattern)
    _afford(compiled, value)
    match = compiled.search(value)
    return "" if match is None else str(match.group())


def find_all(value: Value, pattern: Value, limit: Value = -1) -> list[Value]:
    if type(value) is not str or type(pattern) is not str or type(limit) is not int:
        raise no_such_overload("findAll")
    found: list[Value] = []
    if limit == 0:
        return found
    compiled = _compiled(pattern)
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
