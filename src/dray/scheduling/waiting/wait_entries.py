"""WaitEntries: refused pods by what they wait for.

When a change may help an entry, only its first pod is tried; if it fits, the next pod is tried. So a thousand pods that
wait for the same devices cost as much as one. After a failed attempt the entry is not tried before a backoff, which
grows with the number of failures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from dray.scheduling.model.status import Diagnosis
from dray.scheduling.waiting.queued_pods import QueuedPod, Seen, Wait, WaitEntry

INITIAL_BACKOFF: Final = 0.05
MAX_BACKOFF: Final = 10.0
FLUSH_AFTER: Final = 300.0
_SPARE: Final = 64
"""Timers of removed pods that are kept at most, beside as many as there are pods and entries."""


def backoff(failures: int) -> float:
    """Returns the number of seconds until the next attempt after a number of consecutive failures."""
    return min(MAX_BACKOFF, INITIAL_BACKOFF * 2.0 ** min(failures - 1, 20))


class WaitEntries:
    def __init__(self, push: Callable[[QueuedPod], None], place_of: Callable[[QueuedPod], int], timers: Timers) -> None:
        """`push` moves a pod to the active pods; `place_of` returns the place of a pod among pods of one priority."""
        self._push = push
        self._place_of = place_of
        self._timers = timers
        self._entries: dict[Hashable, WaitEntry] = {}
        self.ahead: dict[Hashable, WaitEntry] = {}
        """Entries whose pods seem to fit now, although their backoff is not over."""
        self.turned: list[WaitEntry] = []
        """Entries of queues that take turns, after one of their pods was tried: pods of other queues may be next."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[WaitEntry]:
        return iter(list(self._entries.values()))

    def __contains__(self, entry: WaitEntry) -> bool:
        return self._entries.get(entry.wait.key) is entry

    def get(self, key: Hashable) -> WaitEntry | None:
        return self._entries.get(key)

    def known(self, key: Hashable, trying: QueuedPod | None = None) -> WaitEntry | None:
        """Returns the entry if pods of it wait and none is being tried, or if only the pod `trying` is being tried in
        the turn of its queue; otherwise None."""
        entry = self._entries.get(key)
        if entry is None or not entry.members:
            return None
        mine = entry.trying is trying and trying is not None and trying.turn is not None
        return entry if entry.trying is None or mine else None

    def add(self, queued: QueuedPod, diagnosis: Diagnosis | None, wait: Wait, now: float) -> WaitEntry:
        """Adds a refused pod to the entry of its wait."""
        entry = self._entries.get(wait.key)
        if queued.entry is not None and queued.entry is not entry:
            self.remove(queued, now)
        if entry is None:
            entry = self._entries[wait.key] = WaitEntry(wait)
            entry.trying = queued
        entry.renew(wait)
        entry.diagnosis = diagnosis
        # Further pods of the entry do not count as failures.
        if entry.trying is queued:
            entry.trying = None
            entry.failures += 1
            entry.not_before = now + backoff(entry.failures)
        entry.members[queued.pod.uid] = queued
        heappush(entry.order, (self._place_of(queued), queued.pod.uid))
        self._timers.set(entry, now + (backoff(entry.failures) if wait.error else FLUSH_AFTER), now)
        if wait.at < inf:
            self._timers.set(entry, wait.at, now)
        return entry

    def note_seen(self, entry: WaitEntry, seen: Seen) -> None:
        """Notes which changes were known when a pod of the entry was last tried, or were caused by that."""
        entry.seen = seen

    def outdate(self, entry: WaitEntry) -> None:
        """Drops the diagnosis of the entry, which is outdated."""
        entry.diagnosis = None

    # Attempts

    def move_to_active(self, entry: WaitEntry, now: float) -> None:
        """Tries the first pod of the entry, after a change that may help, once the backoff is over."""
        if entry.trying is not None or not entry.members:
            return
        if now < entry.not_before:
            self._timers.set(entry, entry.not_before, now)
            return
        self._try_first(entry)

    def try_now(self, entry: WaitEntry) -> None:
        """Tries the first pod of the entry without waiting for the backoff: it is its turn, and it seems to fit."""
        if entry.trying is None and entry.members:
            self._try_first(entry)

    def let_ahead(self, entry: WaitEntry) -> None:
        """Lets the entry be tried before the end of its backoff if the next active pod has a lower priority."""
        if entry.trying is None and entry.members:
            self.ahead[entry.wait.key] = entry

    def activate_ahead(self, priority: int) -> None:
        """Tries the entries of `let_ahead` whose first pod has a higher priority than `priority`."""
        for entry in list(self.ahead.values()):
            first = entry.first() if entry.trying is None else None
            if first is None:
                del self.ahead[entry.wait.key]
            elif first.pod.priority > priority:
                self._try_first(entry)

    def _try_first(self, entry: WaitEntry) -> None:
        self.ahead.pop(entry.wait.key, None)
        first = entry.first()
        if first is None:
            return
        del entry.members[first.pod.uid]
        heappop(entry.order)
        entry.trying = first
        self._push(first)

    # Removal

    def placed(self, queued: QueuedPod, now: float) -> None:
        """Removes a pod for which a node was found; the next pod of the entry may fit too."""
        entry = queued.entry
        if entry is not None and entry.trying is queued:
            entry.failures = 0
            entry.not_before = now
        self.remove(queued, now)

    def remove(self, queued: QueuedPod, now: float) -> None:
        """Removes a pod from its entry; if it was being tried, the next pod may be tried."""
        entry = queued.entry
        if entry is None:
            return
        was_tried = entry.trying is queued
        self._take(queued, entry)
        if was_tried and entry.members and queued.turn is not None:
            self.turned.append(entry)
        elif was_tried and entry.members:
            self.move_to_active(entry, now)

    def pick(self, queued: QueuedPod) -> None:
        """Removes a pod that is tried by itself, while the other pods of the entry wait on."""
        if queued.entry is not None:
            self._take(queued, queued.entry)

    def _take(self, queued: QueuedPod, entry: WaitEntry) -> None:
        queued.entry = None
        entry.members.pop(queued.pod.uid, None)
        if entry.trying is queued:
            entry.trying = None
        if not entry.members and entry.trying is None:
            self._entries.pop(entry.wait.key, None)

    def pop_turned(self) -> list[WaitEntry]:
        """Returns the entries of which a pod was tried in its turn since the last call."""
        turned, self.turned = self.turned, []
        return turned

    def clock_set(self, seconds: float) -> None:
        for entry in self._entries.values():
            entry.not_before += seconds
            entry.timer += seconds


class Timers:
    """The times when pods and entries are retried even if nothing happens."""

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
