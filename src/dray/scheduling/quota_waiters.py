"""QuotaWaiters: pods that lack quota of their queue, in the order in which they get it.

Those that ask for the same of one queue stand together. When quota becomes free only the first of them is woken, and
the next when that one has got what it wants: ten thousand pods that wait cost no more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from dray.scheduling.model import Pod


class Alike(NamedTuple):
    """Pods that ask for the same."""

    root: str
    """What their queue shares with others."""
    queue: str
    priority: int
    wanted: frozenset[tuple[str, int]]


def alike(root: str, queue: str, pod: Pod, wanted: Mapping[str, int]) -> Alike:
    return Alike(root, queue, pod.priority, frozenset(wanted.items()))


class QuotaWaiters:
    def __init__(self) -> None:
        self.woken: list[str] = []
        """Pods by uid that may have quota now."""
        self._waiting: dict[Alike, list[tuple[int, str]]] = {}
        self._places: dict[str, Alike] = {}
        """By pod uid, where it stands; entries above of pods that stand elsewhere by now are passed over."""
        self._arrivals: dict[str, int] = {}

    def arrive(self, uid: str, arrival: int) -> None:
        self._arrivals[uid] = arrival

    def lack(self, uid: str, key: Alike) -> None:
        self._places[uid] = key
        heappush(self._waiting.setdefault(key, []), (self._arrivals.get(uid, 0), uid))

    def granted(self, uid: str, key: Alike) -> None:
        """There is quota for the pod: there may be for the next of its kind."""
        self._places.pop(uid, None)
        if key in self._waiting:
            self._wake_first(key)

    def free(self, root: str) -> None:
        """There is more for all below a root."""
        for key in [each for each in self._waiting if each.root == root]:
            self._wake_first(key)

    def forget(self, uid: str) -> None:
        self._arrivals.pop(uid, None)
        self._places.pop(uid, None)

    def _wake_first(self, key: Alike) -> None:
        waiting = self._waiting[key]
        while waiting:
            _, uid = heappop(waiting)
            if self._places.get(uid) == key:
                del self._places[uid]
                self.woken.append(uid)
                break
        if not waiting:
            del self._waiting[key]
