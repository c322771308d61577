"""StrictFIFO: pods that wait in queues where the first holds up the others, and who is the first.

They stand by priority, then by arrival. Pods of one workload go together: none of them is held up by another, also
where others came between them. When somebody else becomes the first, those are woken whom that lets go on, and nobody
behind them: ten thousand pods that wait cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import takewhile
from typing import NamedTuple

from sortedcontainers import SortedList


class _Place(NamedTuple):
    queue: str
    turn: tuple[int, int]
    """Orders entries by priority and arrival."""
    uid: str
    workload: Hashable

    @property
    def entry(self) -> tuple[tuple[int, int], str]:
        return self.turn, self.uid


class StrictFIFO:
    def __init__(self, wake: Callable[[Iterable[str]], None]) -> None:
        """`wake` is told which pods by uid are held up no longer."""
        self._wake = wake
        self._places: dict[str, _Place] = {}
        """By pod uid."""
        self._lines: dict[str, SortedList] = {}
        """The entries of pods that wait, by queue."""
        self._workloads: dict[tuple[str, Hashable], set[str]] = {}
        """The uids of the pods of each queue and workload."""

    def join(self, uid: str, queue: str, turn: tuple[int, int], workload: Hashable) -> None:
        place = _Place(queue, turn, uid, workload)
        # Who stands where it stood changes nothing for those behind it, which would be tried again for ever.
        if self._places.get(uid) == place:
            return
        self.leave(uid)
        before = self._first(queue)
        self._places[uid] = place
        self._lines.setdefault(queue, SortedList()).add(place.entry)
        self._workloads.setdefault((queue, workload), set()).add(uid)
        self._call(queue, before)

    def leave(self, uid: str) -> None:
        """The pod holds up nobody any more."""
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
        self._call(queue, before)

    def _first(self, queue: str) -> _Place | None:
        line = self._lines.get(queue)
        return self._places[line[0][1]] if line else None

    def _call(self, queue: str, before: _Place | None) -> None:
        """Wakes those who are not held up by the first of the queue, and were by the one before."""
        first = self._first(queue)
        if first is None or before is None:
            return
        woken: set[str] = set()
        if first.turn != before.turn:
            woken.update(uid for _, uid in takewhile(lambda each: each[0] == first.turn, self._lines[queue]))
        if first.workload != before.workload:
            woken |= self._workloads[queue, first.workload]
        self._wake(sorted(woken))

    def is_held_up(self, uid: str) -> bool:
        place = self._places.get(uid)
        first = self._first(place.queue) if place is not None else None
        return place is not None and first is not None and first.turn < place.turn and first.workload != place.workload
