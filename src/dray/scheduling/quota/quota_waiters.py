"""QuotaWaiters: pods that lack quota of their queue, in the order in which they get it, and what became free.

Those that ask for the same of one queue stand together. When quota becomes free only the first of them is woken, and
the next when that one has got what it wants: ten thousand pods that wait cost no more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.queue_policy import Ask

QUOTA: Final = "quota"
ANY_QUEUE: Final = ObjectRef(QUOTA, "", "")
"""What those wait for who would be helped by any change of the queues."""


class Alike(NamedTuple):
    """Pods that ask for the same."""

    root: str
    """What their queue shares with others."""
    queue: str
    line: str
    """What they say of their queue, with their namespace: several such lines may lead to one queue."""
    priority: int
    wanted: frozenset[tuple[str, int]]


def alike(root: str, line: str, ask: Ask) -> Alike:
    return Alike(root, ask.queue, line, ask.priority, frozenset(ask.wanted.items()))


class QuotaChanges(NamedTuple):
    """What became possible for pods that lack quota, or wait for their turn."""

    ready: Sequence[str]
    """Pods by uid that may have quota now."""
    freed: frozenset[ObjectRef]
    """Quotas of which there is more than before."""


class QuotaWaiters:
    def __init__(self, is_waiting: Callable[[str], bool]) -> None:
        """`is_waiting` tells of a pod by its uid whether it would find out that it has to wait on, whatever became
        free."""
        self._is_waiting = is_waiting
        self._ready: list[str] = []
        self._freed: set[ObjectRef] = set()
        self._waiting: dict[Alike, list[tuple[int, str]]] = {}
        self._places: dict[str, Alike] = {}
        """By pod uid, where it stands; entries above of pods that stand elsewhere by now are passed over."""
        self._called: dict[str, Alike] = {}
        """By uid, pods that were woken and have not asked for quota since."""
        self._arrivals: dict[str, int] = {}

    def arrive(self, uid: str, arrival: int) -> None:
        self._arrivals[uid] = arrival

    def lack(self, uid: str, key: Alike) -> None:
        self._called.pop(uid, None)
        self._places[uid] = key
        heappush(self._waiting.setdefault(key, []), (self._arrivals.get(uid, 0), uid))

    def granted(self, uid: str, key: Alike) -> None:
        """There is quota for the pod: there may be for the next of its kind."""
        self._called.pop(uid, None)
        self._places.pop(uid, None)
        if key in self._waiting:
            self._wake_first(key)

    def passed(self, uid: str) -> None:
        """The pod does not ask for quota, though it may have been woken for that: it is the turn of the next."""
        key = self._called.pop(uid, None)
        if key is not None and key in self._waiting:
            self._wake_first(key)

    def free(self, root: str, is_hopeful: Callable[[str, int, Iterable[tuple[str, int]]], bool]) -> None:
        """There is more for all below a root; `is_hopeful` tells of a queue whether pods of a priority may get there
        what they want."""
        self._freed.add(ObjectRef(QUOTA, "", root))
        for key in [each for each in self._waiting if each.root == root]:
            if is_hopeful(key.queue, key.priority, key.wanted):
                self._wake_first(key)

    def wake(self, uids: Iterable[str]) -> None:
        """The pods are to be tried, whatever they wait for."""
        self._ready += uids

    def free_all(self) -> None:
        """Queues may take pods now that they did not take before."""
        self._freed.add(ANY_QUEUE)

    def pop(self) -> QuotaChanges | None:
        """Returns what became possible since this was asked last; None if nothing did."""
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
