"""ShareSizes: how much of a shared device will stay unused, learned from the shares that are in use.

A device gets shares until none fits any more. The part that is free then is unused. Its expected size is computed as if
every share that comes had the size of one of the shares in use, each with the same probability. Example: if shares
have 470 and 810 thousandths, a device with 530 free will have 60 unused, and one with 190 free all 190. Shares of rare
sizes may come too late, so no further share comes with a probability of 2 % of all shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

WHOLE: Final = 1000
"""The size of a device; shares are counted in thousandths."""
_NO_SHARE: Final = 0.02
_FEWEST: Final = 32
"""Minimum number of shares; nothing is learned from fewer."""
# The table is computed anew after so many changes for each share; then the kept scores of all nodes are outdated. In
# traces of 8,000 tasks the same is allocated if it is computed after each 64th share.
_CHANGES: Final = 4


class ShareSizes:
    def __init__(self) -> None:
        self._numbers: Counter[int] = Counter()
        """The number of shares in use by size. Shares that take the whole device are left out."""
        self._changes = 0
        self._most_changes = _FEWEST
        self._unused = _table(self._numbers)
        self.revision = 0
        """The number of times that the sizes were learned anew."""

    def replace(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """Counts the shares of a node anew; `before` and `after` are numbers of shares by size."""
        if before == after:
            return
        for size in before.keys() | after.keys():
            change = after.get(size, 0) - before.get(size, 0)
            if change and size < WHOLE:
                self._numbers[size] += change
                self._changes += abs(change)
        if self._changes >= self._most_changes:
            self._unused, self._changes = _table(self._numbers), 0
            self._most_changes = max(_FEWEST, _CHANGES * self._numbers.total())
            self.revision += 1

    def unused(self, free: int) -> float:
        """The part that is expected to stay unused if this part of a device in use is free."""
        return self._unused[free]


def _table(numbers: Mapping[int, int]) -> Sequence[float]:
    """The expected unused part by the part that is free."""
    sizes = sorted((size, number) for size, number in numbers.items() if number > 0)
    none = _NO_SHARE * sum(number for _, number in sizes)
    found: list[float] = []
    for free in range(WHOLE + 1):
        total, unused = none, none * free
        for size, number in sizes:
            if size > free:
                break
            total += number
            unused += number * (found[free - size] if size else free)
        found.append(unused / total if total else free)
    return found
