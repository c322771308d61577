"""The conditions of a selector: the texts that `&&` joins, so that it can be said which of them is not met."""

from __future__ import annotations

from typing import Final

from dray.cel.errors import CompileError
from dray.cel.lexer import tokenize

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


def conditions(expression: str) -> list[str]:
    """Outside of all brackets; the whole text where `||` or `?` stands there, or where it cannot be read."""
    try:
        tokens = tokenize(expression)
    except CompileError:
        return [expression]
    depth, cuts = 0, [0]
    for kind, text, _, offset in tokens:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and text in ("||", "?"):
            return [expression]
        if depth == 0 and text == "&&":
            cuts += [offset, offset + 2]
    cuts.append(len(expression))
    return [expression[start:end].strip() for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
