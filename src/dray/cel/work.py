"""A bound on work and memory that CEL's cost does not see: nested comparison, replacement, concatenation.

Cost counts the size of the operands, not of what grows out of them, so a short expression could still build or
compare something huge. Every evaluation starts with `LIMIT` units; one is a list element or eight characters.
The counter is shared by all evaluations of the process: they do not overlap except in threads, where a reset by
another evaluation merely loosens the bound.
"""

from __future__ import annotations

from typing import Final

from dray.cel.errors import CostLimitExceeded

LIMIT: Final = 500_000


class Allowance:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LIMIT

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise CostLimitExceeded("operation cancelled: values grow too large")


ALLOWANCE: Final = Allowance()


spend: Final = ALLOWANCE.spend


def spend_characters(count: int) -> None:
    if count > 1024:
        ALLOWANCE.spend(count >> 3)
