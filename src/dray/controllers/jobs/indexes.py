"""Sets of completion indexes, as `status.completedIndexes` writes them: `1,3-5,7`.

They are kept as ranges: a Job of a hundred thousand indexes that finish in order is one range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from dray.api.objects import int64


class Indexes:
    """An immutable set of indexes, stored as sorted, disjoint, inclusive ranges."""

    __slots__ = ("_firsts", "ranges", "total")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.ranges = _merged(ranges)
        self.total = sum(last - first + 1 for first, last in self.ranges)
        self._firsts = [first for first, _ in self.ranges]

    @classmethod
    def parse(cls, text: str, below: int | None = None) -> Indexes:
        """Reads what it can; indexes of `below` and more are left out, as after a Job shrank."""
        found = []
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            start, end = int64(first), int64(last or first)
            if start is None or end is None or start < 0:
                continue
            found.append((start, end if below is None else min(end, below - 1)))
        return cls(found)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        return cls((number, number) for number in numbers)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self._firsts, index) - 1
        return place >= 0 and index <= self.ranges[place][1]

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes([*self.ranges, *other.ranges]) if other.ranges else self

    def __eq__(self, other: object) -> bool:
        return self.ranges == other.ranges if isinstance(other, Indexes) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.ranges))

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self.ranges)

    def common(self, other: Indexes) -> int:
        """Returns how many indexes are in both sets."""
        total, left, right = 0, 0, 0
        while left < len(self.ranges) and right < len(other.ranges):
            first = max(self.ranges[left][0], other.ranges[right][0])
            last = min(self.ranges[left][1], other.ranges[right][1])
            total += max(0, last - first + 1)
            if self.ranges[left][1] < other.ranges[right][1]:
                left += 1
            else:
                right += 1
        return total

    def missing(self, below: int) -> Iterator[int]:
        """Yields the indexes from 0 that are missing, ascending."""
        start = 0
        for first, last in self.ranges:
            yield from range(start, min(first, below))
            start = last + 1
        yield from range(start, below)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if first > last:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _text(first: int, last: int) -> str:
    # Two neighbours are written apart, as Kubernetes does.
    if last - first < 2:
        return str(first) if first == last else f"{first},{last}"
    return f"{first}-{last}"
