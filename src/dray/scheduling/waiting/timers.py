"""Timers: the times when pods and entries are retried even if nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from dray.scheduling.waiting.queued_pods import QueuedPod, WaitEntry

_SPARE: Final = 64


class Timers:
    def __init__(self, matters: Callable[[QueuedPod | WaitEntry], bool], number: Callable[[], int]) -> None:
        """`matters` tells whether a timer is still needed; `number` returns how many timers may be needed."""
        self._matters = matters
        self._number = number
        self._heap: list[tuple[float, int, QueuedPod | WaitEntry]] = []
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when: float, what: QueuedPod | WaitEntry) -> None:
        self._ticket += 1
        heappush(self._heap, (when, self._ticket, what))
        # Timers of removed pods would be kept until their time.
        if len(self._heap) > _SPARE + 2 * self._number():
            self._heap = [timer for timer in self._heap if self._matters(timer[2])]
            heapify(self._heap)

    def set(self, entry: WaitEntry, when: float, now: float) -> None:
        """Sets the timer of an entry, unless it has an earlier one."""
        if not now < entry.timer <= when:
            entry.timer = when
            self.at(when, entry)

    def pop(self, now: float) -> QueuedPod | WaitEntry | None:
        """Returns the next pod or entry that is due; None if there is none."""
        while self._heap and self._heap[0][0] <= now:
            _, _, what = heappop(self._heap)
            if self._matters(what):
                return what
        return None

    def due(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def clock_set(self, seconds: float) -> None:
        self._heap = [(when + seconds, ticket, what) for when, ticket, what in self._heap]
