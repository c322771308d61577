"""Keys of a store in order: a sorted list that can be walked from any place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sortedcontainers import SortedList

# Sorts after every continuation of a prefix.
_LAST: Final = "\U0010ffff"


class SortedKeys(SortedList):  # type: ignore[misc] # the library has no types
    def has(self, prefix: str) -> bool:
        """Whether `under` would give any."""
        first: str | None = next(self.irange(prefix), None)
        return first is not None and first.startswith(prefix)

    def under(self, prefix: str, after: str = "") -> Iterator[str]:
        """Keys with the prefix and above `after`, in order."""
        found: Iterator[str] = self.irange(max(prefix, after), prefix + _LAST, inclusive=(after < prefix, True))
        return found

    def count_under(self, prefix: str, after: str = "") -> int:
        """How many `under` would give."""
        low: int = self.bisect_left(prefix) if after < prefix else self.bisect_right(after)
        return max(0, int(self.bisect_right(prefix + _LAST)) - low)
