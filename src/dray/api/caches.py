"""Caches with a bound in bytes, or in entries of which none is large.

What clients send becomes a key of many caches, and a client may send ever other texts of a megabyte. A bound on the
number of entries alone is none on memory then. So a cache either adds up the sizes of what it keeps (`Cache`), or does
not keep anything about a long text (`remember`), which is rare and may cost what it costs. `BoundedDict` is for what is
small by its nature.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", bound=str | bytes)

LONGEST: Final = 512


class Cache(Generic[K, V]):
    """A cache that drops the least recently used entries when there are too many or their total size is too large."""

    __slots__ = ("_entries", "_most", "_most_bytes", "size")

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0
        """Size of all entries, in bytes as given to `put`."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        if found is None:
            return None
        # Another thread may have forgotten it meanwhile.
        with suppress(KeyError):
            self._entries.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Adds an entry, unless it is larger than the whole cache."""
        self.pop(key)
        if size > self._most_bytes:
            return
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self._most_bytes or len(self._entries) > self._most:
            try:
                self.size -= self._entries.popitem(last=False)[1][1]
            except KeyError:
                self.size = 0

    def pop(self, key: K) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self.size -= found[1]

    def values(self) -> list[V]:
        return [value for value, _ in self._entries.values()]


class BoundedDict(dict[K, V]):
    """A dictionary of at most so many entries, for values of about one size: those that came first go first.

    Reading costs what it costs in a dictionary; use a `Cache` where entries differ in size.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            for old in list(islice(self, 1 + self._most // 4)):
                del self[old]


def remember(most: int, longest: int = LONGEST) -> Callable[[Callable[[T], V]], Callable[[T], V]]:
    """`lru_cache` for a function of one text, of which nothing is kept if the text is longer than that."""

    def decorate(function: Callable[[T], V]) -> Callable[[T], V]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def ask(text: T) -> V:
            return kept(text) if len(text) <= longest else function(text)

        return ask

    return decorate
