"""Keys in order, as a list of short sorted lists, so that an insertion among many keys moves only a few of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_CHUNK: Final = 1000
# Sorts after every continuation of a prefix.
_LAST: Final = "\U0010ffff"


class SortedKeys:
    """A set of keys that can be walked from any place."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [ordered[at : at + _CHUNK] for at in range(0, len(ordered), _CHUNK)] or [[]]
        # Lower bounds of the chunks; the first chunk takes whatever sorts before all others.
        self._firsts = ["", *(chunk[0] for chunk in self._chunks[1:])]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, key: str) -> None:
        """The key must not be there yet."""
        at = self._chunk_of(key)
        chunk = self._chunks[at]
        insort(chunk, key)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[at : at + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
            self._firsts.insert(at + 1, chunk[_CHUNK])

    def remove(self, key: str) -> None:
        """The key must be there."""
        at = self._chunk_of(key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        if not chunk and at:
            del self._chunks[at], self._firsts[at]

    def has(self, prefix: str) -> bool:
        """Whether `under` would give any."""
        at = self._chunk_of(prefix)
        chunk = self._chunks[at]
        low = bisect_left(chunk, prefix)
        if low == len(chunk):
            return at + 1 < len(self._chunks) and self._chunks[at + 1][0].startswith(prefix)
        return chunk[low].startswith(prefix)

    def under(self, prefix: str, after: str = "") -> Iterator[str]:
        """Keys with the prefix and above `after`, in order."""
        start = max(prefix, after)
        at = self._chunk_of(start)
        chunk = self._chunks[at]
        low = bisect_right(chunk, after) if after >= prefix else bisect_left(chunk, prefix)
        end = prefix + _LAST
        while True:
            if chunk and chunk[-1] > end:
                yield from chunk[low : bisect_left(chunk, end)]
                return
            yield from chunk[low:] if low else chunk
            at, low = at + 1, 0
            if at == len(self._chunks):
                return
            chunk = self._chunks[at]

    def count(self, prefix: str, after: str = "") -> int:
        """How many `under` would give."""
        low = self._rank(after, bisect_right) if after >= prefix else self._rank(prefix, bisect_left)
        return max(0, self._rank(prefix + _LAST, bisect_left) - low)

    def _chunk_of(self, key: str) -> int:
        return bisect_right(self._firsts, key) - 1

    def _rank(self, key: str, bisect: Callable[[list[str], str], int]) -> int:
        at = self._chunk_of(key)
        return sum(map(len, self._chunks[:at])) + bisect(self._chunks[at], key)
