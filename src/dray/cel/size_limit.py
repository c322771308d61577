"""The size limit of an evaluation: work and memory that CEL's cost does not see.

Cost counts the size of the operands, not of what grows out of them, so a short expression could still build or compare
something huge by nested comparison, replacement or concatenation. Every evaluation starts with `LIMIT` units; one is a
list element or eight characters. What is left belongs to the context of the evaluation: threads do not share it.

Patterns that an expression computes are compiled while it runs, so their instructions are charged here. Literal
patterns were charged when the expression was compiled.
"""

from __future__ import annotations

from collections.abc import Set
from contextvars import ContextVar
from typing import Final

from dray.cel.errors import CostLimitExceeded

LIMIT: Final = 500_000
# Compiling an instruction of a pattern takes as long as ten units: about 0.4 µs.
_INSTRUCTION: Final = 10
_NO_LITERALS: Final[frozenset[str]] = frozenset()
# Lists of a number, made twice as fast as an object: units that remain, instructions of computed patterns.
_REMAINING: Final[ContextVar[list[int]]] = ContextVar("dray.cel.size_limit")
_LITERALS: Final[ContextVar[Set[str]]] = ContextVar("dray.cel.literal_patterns", default=_NO_LITERALS)


def start(literals: Set[str] = _NO_LITERALS) -> None:
    """Begins an evaluation, or the compilation of an expression, which computes its constants.

    `literals` are the patterns of the expression that are charged already.
    """
    _REMAINING.set([LIMIT, 0])
    _LITERALS.set(literals)


def spend(units: int) -> None:
    """Raises CostLimitExceeded if there are not so many units left."""
    remaining = _REMAINING.get()
    remaining[0] -= units
    if remaining[0] < 0:
        raise CostLimitExceeded("operation cancelled: values grow too large")


def is_literal(pattern: str) -> bool:
    return pattern in _LITERALS.get()


def spend_instructions(count: int) -> None:
    """Charges the compilation of a computed pattern."""
    _REMAINING.get()[1] += count
    spend(count * _INSTRUCTION)


def computed_instructions() -> int:
    """The instructions of computed patterns in this evaluation so far."""
    return _REMAINING.get()[1]


def spend_characters(count: int) -> None:
    if count > 1024:
        spend(count >> 3)
