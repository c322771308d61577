"""StrictFIFO: the waiting pods of queues in which the first workload holds up the others.

Pods are ordered by priority, then by arrival. Pods of one workload do not hold up each other, even if other pods
arrived between them. When another pod becomes the first, only the pods that are no longer held up are woken, so that
the cost does not grow with the number of waiting pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import takewhile
from typing import NamedTuple

from sortedcontainers import SortedList


class _Place(NamedTuple):
    queue: str
    turn: tuple[int, int]
    """The sort key: negative priority, then arrival."""
    uid: str
    workload: Hashable

    @property
    def entry(self) -> tuple[tuple[int, int], str]:
        return self.turn, self.uid


class StrictFIFO:
    def __init__(self, wake: Callable[[Iterable[str]], None]) -> None:
        """`wake` is called with the uids of pods that are no longer held up."""
        self._wake = wake
        self._places: dict[str, _Place] = {}
        """The place of each waiting pod, by pod uid."""
        self._lines: dict[str, SortedList] = {}
        """The sorted entries of waiting pods, by queue."""
        self._workloads: dict[tuple[str, Hashable], set[str]] = {}
        """The uids of the pods of each queue and workload."""

    def add(self, uid: str, queue: str, turn: tuple[int, int], workload: Hashable) -> None:
        place = _Place(queue, turn, uid, workload)
        # A pod that keeps its place wakes no other pods; otherwise these would be tried again without end.
        if self._places.get(uid) == place:
            return
        self.remove(uid)
        before = self._first(queue)
        self._places[uid] = place
        self._lines.setdefault(queue, SortedList()).add(place.entry)
        self._workloads.setdefault((queue, workload), set()).add(uid)
        self._wake_next(queue, before)

    def remove(self, uid: str) -> None:
        """Removes the pod, which then holds up no other pod."""
        place = self._places.get(uid)
        if place is None:
            return
        queue, workload = place.queue, place.workload
        before = self._first(queue)
        del self._places[uid]
        self._lines[queue].remove(place.entry)
        if not self._lines[queue]:
            del self._lines[queue]
        self._workloads[queue, workload].discard(uid)
        if not self._workloads[queue, workload]:
            del self._workloads[queue, workload]
        self._wake_next(queue, before)

    def _first(self, queue: str) -> _Place | None:
        line = self._lines.get(queue)
        return self._places[line[0][1]] if line else None

    def _wake_next(self, queue: str, before: _Place | None) -> None:
        """Wakes the pods that the first pod of the queue does not hold up, but the first pod before it did."""
        first = self._first(queue)
        if first is None or before is None:
            return
        woken: set[str] = set()
        if first.turn != before.turn:
            woken.update(uid for _, uid in takewhile(lambda entry: entry[0] == first.turn, self._lines[queue]))
        if first.workload != before.workload:
            woken |= self._workloads[queue, first.workload]
        self._wake(sorted(woken))

    def is_held_up(self, uid: str) -> bool:
        place = self._places.get(uid)
        first = self._first(place.queue) if place is not None else None
        return place is not None and first is not None and first.turn < place.turn and first.workload != place.workload
