"""JSONPath as printer columns and `-o jsonpath` use it: `.spec.size`, `.status.conditions[?(@.type=="Ready")].status`.

Members, indices, slices, unions, wildcards, recursive descent and comparing filters; a dot within a name is written
`\\.`. A path that leads nowhere has no results. Results are bounded, and so are the values that are looked at on the
way, so that no path makes a table hang.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

_MAX_RESULTS = 1000
_MAX_VALUES = 5000
_MAX_LENGTH = 4096
_NAME = re.compile(r"(?:[^\\.\[\]{}'\"]|\\.)+")
_QUOTED = re.compile(r"""\[\s*(?:'([^']*)'|"([^"]*)")\s*\]""")
_INDICES = re.compile(r"\[\s*(-?\d{1,9}(?:\s*,\s*-?\d{1,9})*)\s*\]")
_SLICE = re.compile(r"\[\s*(-?\d{1,9})?\s*:\s*(-?\d{1,9})?\s*(?::\s*(-?\d{1,9})?\s*)?\]")
_FILTER = re.compile(r"\[\?\(\s*@((?:[^\[\]=<>!]|\[\d+\])*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)\]")


class Work:
    """Limits how many values may be visited; `spend` raises WorkExhausted beyond it. None: no limit."""

    def __init__(self, values: int | None) -> None:
        self._left = values

    def spend(self) -> None:
        if self._left is None:
            return
        if self._left <= 0:
            raise WorkExhausted
        self._left -= 1


class WorkExhausted(Exception):
    """The path visits too many values of the document."""


Step = Callable[[Any, Work], Iterator[Any]]
Path = tuple[Step, ...]


@lru_cache(maxsize=1024)
def parse(text: str) -> Path | None:
    """Parses a path into steps; None if it is not valid."""
    if len(text) > _MAX_LENGTH:
        return None
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _parse_step(text, at)
        if found is None:
            return None
        step, at = found
        steps.append(step)
    return tuple(steps)


def _parse_step(text: str, at: int) -> tuple[Step, int] | None:
    if text.startswith("..", at):
        return _descend, at + 1 if text[at + 2 : at + 3] not in ("[", "") else at + 2
    if text[at] == ".":
        if text[at + 1 : at + 2] in ("", "["):
            return (_same, at + 1) if len(text) == at + 1 or text[at + 1] == "[" else None
        at += 1
    if text[at] == "*":
        return _every, at + 1
    if text.startswith("[*]", at):
        return _every, at + 3
    for pattern, make in _BRACKETS:
        match = pattern.match(text, at)
        if match:
            step = make(match)
            return (step, match.end()) if step else None
    match = _NAME.match(text, at)
    if match is None:
        return None
    return _member(re.sub(r"\\(.)", r"\1", match[0])), match.end()


def find(path: Path, document: Any, *, limit: int | None = _MAX_RESULTS) -> list[Any]:
    """Returns what the path leads to, in order; nothing if too many values are on the way. `limit` bounds the results
    of every step; without it, nothing is bounded."""
    try:
        return _found(path, document, limit, Work(None if limit is None else _MAX_VALUES))
    except WorkExhausted:
        return []


def first(path: Path, document: Any, work: Work) -> list[Any]:
    """Returns at most one result: the first that the path leads to, if `work` is enough to find it."""
    values = iter([document])
    for step in path:
        values = _all_of(step, values, work)
    try:
        return list(islice(values, 1))
    except WorkExhausted:
        return []


def _all_of(step: Step, values: Iterator[Any], work: Work) -> Iterator[Any]:
    for value in values:
        yield from _stepped(step, value, work)


def _found(path: Path, document: Any, limit: int | None, work: Work) -> list[Any]:
    values: list[Any] = [document]
    for step in path:
        values = list(islice((found for value in values for found in _stepped(step, value, work)), limit))
    return values


def _stepped(step: Step, value: Any, work: Work) -> Iterator[Any]:
    work.spend()
    return step(value, work)


def _same(value: Any, work: Work) -> Iterator[Any]:
    yield value


def _every(value: Any, work: Work) -> Iterator[Any]:
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        work.spend()
        yield child


def _descend(value: Any, work: Work) -> Iterator[Any]:
    pending = [value]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(list(_every(found, work))))


def _member(name: str) -> Step:
    def step(value: Any, work: Work) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _quoted(match: re.Match[str]) -> Step:
    return _member(match[1] if match[1] is not None else match[2])


def _indices(match: re.Match[str]) -> Step:
    wanted = [int(part) for part in match[1].split(",")]

    def step(value: Any, work: Work) -> Iterator[Any]:
        if isinstance(value, list):
            for index in wanted:
                if -len(value) <= index < len(value):
                    yield value[index]

    return step


def _slice(match: re.Match[str]) -> Step | None:
    start, end, stride = (int(part) if part else None for part in match.groups())
    if stride is not None and stride <= 0:
        return None

    def step(value: Any, work: Work) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:end:stride]

    return step


def _filter(match: re.Match[str]) -> Step | None:
    inner = parse(match[1])
    if inner is None:
        return None
    operator = match[2]
    if not operator:
        return lambda value, work: (item for item in _every(value, work) if _found(inner, item, _MAX_RESULTS, work))
    right = _operand(match[3])
    if right is None:
        return None
    holds = _OPERATORS[operator]

    def step(value: Any, work: Work) -> Iterator[Any]:
        for item in _every(value, work):
            left = _found(inner, item, _MAX_RESULTS, work)
            others = right(item, work)
            if left and others and _comparable(left[0], others[0]) and holds(left[0], others[0]):
                yield item

    return step


def _operand(text: str) -> Callable[[Any, Work], list[Any]] | None:
    if text.startswith("@"):
        path = parse(text)
        return None if path is None else lambda item, work: _found(path, item, _MAX_RESULTS, work)
    if len(text) >= 2 and text[0] == text[-1] == "'":
        text = '"' + text[1:-1].replace('"', '\\"') + '"'
    try:
        literal = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return lambda item, work: [literal]


def _comparable(left: Any, right: Any) -> bool:
    numbers = (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    return (isinstance(left, numbers) and isinstance(right, numbers)) or (
        isinstance(left, str) and isinstance(right, str)
    )


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
}
_BRACKETS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Step | None]], ...] = (
    (_QUOTED, _quoted),
    (_INDICES, _indices),
    (_SLICE, _slice),
    (_FILTER, _filter),
)
