"""Ranges of sizes, saturating at 64 bits."""

from __future__ import annotations

from math import ceil
from typing import Final

Size = tuple[int, int]
"""The least and the greatest size a value may have."""

MAX: Final = 2**64 - 1
UNKNOWN: Final[Size] = (0, MAX)
FIXED_ONE: Final[Size] = (1, 1)


def cap(value: int) -> int:
    return value if value < MAX else MAX


def add(one: Size, other: Size) -> Size:
    return cap(one[0] + other[0]), cap(one[1] + other[1])


def multiply(one: Size, other: Size) -> Size:
    return cap(one[0] * other[0]), cap(one[1] * other[1])


def union(one: Size, other: Size) -> Size:
    return min(one[0], other[0]), max(one[1], other[1])


def scaled(size: int, factor: float) -> int:
    """A size times a cost factor, rounded up."""
    return cap(ceil(float(size) * factor))
