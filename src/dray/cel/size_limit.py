"""The size limit of an evaluation: work and memory that CEL's cost does not see.

Cost counts the size of the operands, not of what grows out of them, so a short expression could still build or compare
something huge by nested comparison, replacement or concatenation. Every evaluation starts with `LIMIT` units; one is a
list element or eight characters. What is left belongs to the context of the evaluation: threads do not share it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from dray.cel.errors import CostLimitExceeded

LIMIT: Final = 500_000
# A list of one number: made twice as fast as an object.
_REMAINING: Final[ContextVar[list[int]]] = ContextVar("dray.cel.size_limit")


def start() -> None:
    """Begins an evaluation, or the compilation of an expression, which computes its constants."""
    _REMAINING.set([LIMIT])


def spend(units: int) -> None:
    """Raises CostLimitExceeded if there are not so many units left."""
    remaining = _REMAINING.get()
    remaining[0] -= units
    if remaining[0] < 0:
        raise CostLimitExceeded("operation cancelled: values grow too large")


def spend_characters(count: int) -> None:
    if count > 1024:
        spend(count >> 3)
