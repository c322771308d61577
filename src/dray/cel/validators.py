"""Literals that can be judged before running: patterns, durations and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.cel.constants import Folder
from dray.cel.errors import CompileError, EvaluationError
from dray.cel.library.moments import parse_duration, parse_timestamp
from dray.cel.library.regex import compile_pattern
from dray.cel.syntax import Call

_PATTERN: Final = frozenset(("matches", "find", "findAll"))
_MOMENTS: Final = {"duration": parse_duration, "timestamp": parse_timestamp}


JUDGED: Final = _PATTERN | _MOMENTS.keys()
"""The calls whose literals are looked at."""


def validate_literals(node: Call, folder: Folder, text: str) -> None:
    """Raises CompileError if the call has a constant argument that cannot mean anything."""
    check: Callable[[str], object]
    if node.function in _PATTERN:
        argument = node.operands()[1]
        check = compile_pattern
    elif node.function in _MOMENTS and node.args:
        argument = node.args[0]
        check = _MOMENTS[node.function]
    else:
        return
    folded = folder.fold(argument)
    if folded is None or not isinstance(folded.value, str):
        return
    try:
        check(folded.value)
    except EvaluationError as error:
        message = f"invalid {node.function} argument: {error}"
        raise CompileError(message, text=text, offset=argument.offset) from None
