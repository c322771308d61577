"""Topologies of TPU slices: dimensions, the blocks of chips that a machine can be cut into, bounds.

A machine has 1, 2, 4 or 8 chips, numbered so that every aligned run of 1, 2, 4 or 8 numbers is a block of neighbours
(0 and 1 are a 1x2, 4 to 7 a 2x2). So a block is its first chip and its size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

_TEXT: Final = re.compile(r"[1-9]\d{0,2}(x[1-9]\d{0,2}){1,2}")
_BOUNDS: Final = {1: (1, 1, 1), 2: (1, 2, 1), 4: (2, 2, 1), 8: (2, 4, 1)}

Dimensions = tuple[int, int, int]


def dimensions(topology: str) -> Dimensions:
    """Parses `2x4` or `2x2x1`; a missing third dimension is 1. Raises ValueError."""
    if not _TEXT.fullmatch(topology):
        raise ValueError(f"{topology!r} is no topology; write it as 2x4 or 2x2x1")
    found = [int(part) for part in topology.split("x")]
    return found[0], found[1], found[2] if len(found) == 3 else 1


def chips_in(topology: str) -> int:
    return math.prod(dimensions(topology))


def host_bounds(chips: int) -> Dimensions:
    """How the chips of a machine lie. Raises ValueError for a number that no machine has."""
    if chips not in _BOUNDS:
        raise ValueError(f"{chips} chips make no block; there are blocks of {', '.join(map(str, _BOUNDS))}")
    return _BOUNDS[chips]


def block_topology(chips: int, *, flat: bool) -> str:
    """Returns the topology of a block as claims and labels write it: `2x2`, or `2x2x1` in three dimensions."""
    bounds = host_bounds(chips)
    return "x".join(map(str, bounds[:2] if flat else bounds))


def blocks(chips: int) -> list[range]:
    """The blocks of more than one chip that a machine can be cut into, the large ones first."""
    sizes = [size for size in sorted(_BOUNDS, reverse=True) if 1 < size <= chips and chips % size == 0]
    return [range(start, start + size) for size in sizes for start in range(0, chips, size)]


def is_block(numbers: Iterable[int]) -> bool:
    found = sorted(numbers)
    size = len(found)
    return size in _BOUNDS and found[0] % size == 0 and found == list(range(found[0], found[0] + size))


def commas(values: Iterable[object]) -> str:
    return ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
