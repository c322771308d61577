"""ChangeLog: the numbers of nodes that changed, in order. Readers remember how far they have read."""

from __future__ import annotations

from typing import Final

_MOST: Final = 1 << 16


class ChangeLog:
    __slots__ = ("_dropped", "_numbers", "reads")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._dropped = 0
        self.reads = 0
        """How often `since` was called."""

    @property
    def end(self) -> int:
        return self._dropped + len(self._numbers)

    def note(self, number: int) -> None:
        if len(self._numbers) >= _MOST:
            half = _MOST // 2
            del self._numbers[:half]
            self._dropped += half
        self._numbers.append(number)

    def everything(self) -> None:
        """Notes a change of all nodes: all readers have to read all nodes."""
        self._dropped = self.end + 1
        self._numbers.clear()

    def since(self, position: int) -> set[int] | None:
        """Returns the numbers of nodes that changed after a position; None if these changes are not kept any more."""
        self.reads += 1
        if position < self._dropped:
            return None
        return set(self._numbers[position - self._dropped :])
