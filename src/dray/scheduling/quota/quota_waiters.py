"""QuotaWaiters: pods that wait for quota of their queue, in order, and the quota that was freed.

Pods that ask for the same amounts of one queue are kept together. When quota is freed only the first of them is woken,
and the next one when the first got its quota, so that the cost does not grow with the number of waiting pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.queue_policy import Ask

QUOTA: Final = "quota"
ANY_QUEUE: Final = ObjectRef(QUOTA, "", "")
"""The object of pods that any change of the queues may help."""


class Alike(NamedTuple):
    """The key of pods that ask for the same amounts of one queue, with the same priority."""

    root: str
    """The root of the queues that share quota with the queue."""
    queue: str
    line: str
    """The namespace of the pods and the queue name in their label. Several of these may stand for one queue."""
    priority: int
    wanted: frozenset[tuple[str, int]]


def alike(root: str, line: str, ask: Ask) -> Alike:
    return Alike(root, ask.queue, line, ask.priority, frozenset(ask.wanted.items()))


class QuotaChanges(NamedTuple):
    """Changes since the last question that may help pods which lack quota or wait for their turn."""

    ready: Sequence[str]
    """The uids of pods that may have quota now."""
    freed: frozenset[ObjectRef]
    """The objects that stand for quota of which more is free than before."""


class QuotaWaiters:
    def __init__(self, is_waiting: Callable[[str], bool]) -> None:
        """`is_waiting` tells whether the pod with a uid has to wait on, whatever quota was freed."""
        self._is_waiting = is_waiting
        self._ready: list[str] = []
        self._freed: set[ObjectRef] = set()
        self._waiting: dict[Alike, list[tuple[int, str]]] = {}
        self._places: dict[str, Alike] = {}
        """The key under which a pod waits, by uid. Entries of `_waiting` with another key are outdated, and skipped."""
        self._called: dict[str, Alike] = {}
        """Pods that were woken and have not asked for quota since, by uid, with their keys."""
        self._arrivals: dict[str, int] = {}

    def arrive(self, uid: str, arrival: int) -> None:
        self._arrivals[uid] = arrival

    def lack(self, uid: str, key: Alike) -> None:
        self._called.pop(uid, None)
        self._places[uid] = key
        heappush(self._waiting.setdefault(key, []), (self._arrivals.get(uid, 0), uid))

    def granted(self, uid: str, key: Alike) -> None:
        """Notes that the queue has quota for the pod, and wakes the next pod with the same key."""
        self._called.pop(uid, None)
        self._places.pop(uid, None)
        if key in self._waiting:
            self._wake_first(key)

    def passed(self, uid: str) -> None:
        """Notes that the pod does not ask for quota, and wakes the next pod if this pod was woken for quota."""
        key = self._called.pop(uid, None)
        if key is not None and key in self._waiting:
            self._wake_first(key)

    def free(self, root: str, is_hopeful: Callable[[str, int, Iterable[tuple[str, int]]], bool]) -> None:
        """Notes that quota below a root was freed. `is_hopeful` tells whether pods of a queue and priority may get what
        they want."""
        self._freed.add(ObjectRef(QUOTA, "", root))
        for key in [key for key in self._waiting if key.root == root]:
            if is_hopeful(key.queue, key.priority, key.wanted):
                self._wake_first(key)

    def wake(self, uids: Iterable[str]) -> None:
        """Wakes the pods, whatever they wait for."""
        self._ready += uids

    def free_all(self) -> None:
        """Notes that queues may admit pods now that they rejected before."""
        self._freed.add(ANY_QUEUE)

    def pop(self) -> QuotaChanges | None:
        """Returns the changes since the last call; None if there are none."""
        if not self._ready and not self._freed:
            return None
        changes = QuotaChanges(self._ready, frozenset(self._freed))
        self._ready, self._freed = [], set()
        return changes

    def forget(self, uid: str) -> None:
        self._arrivals.pop(uid, None)
        self._places.pop(uid, None)
        self.passed(uid)

    def _wake_first(self, key: Alike) -> None:
        waiting = self._waiting[key]
        while waiting:
            uid = waiting[0][1]
            if self._places.get(uid) == key:
                if self._is_waiting(uid):
                    return
                del self._places[uid]
                self._called[uid] = key
                self._ready.append(uid)
                heappop(waiting)
                break
            heappop(waiting)
        if not waiting:
            del self._waiting[key]
