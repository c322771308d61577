"""ReclaimWaiters: refused pods for which other pods may be evicted once these take quota.

A pod that had quota but fit on no node may reclaim both when other pods take that quota, or more than their share. A
pod that lacked quota and found no pods to evict may find some once a pod takes quota that may be evicted for it. Then
the first of the pods that ask for the same is tried again. There may be thousands of kinds of such pods, so a limited
number of kinds is checked at a time, in turn.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from dray.scheduling.quota.queue_policy import Ask, QueuePolicy

# The number of kinds that are checked at a time; each takes some microseconds.
_MOST: Final = 64


class _Kind(NamedTuple):
    """The key of pods that ask for the same, so that the same change may help them."""

    queue: str
    priority: int
    wanted: frozenset[tuple[str, int]]
    lacks: bool
    """Whether the pods lacked quota; otherwise they had quota and fit on no node."""


class _Asked(NamedTuple):
    policy: QueuePolicy
    ask: Ask


Root = tuple[str, str]
"""The label of a queue system, and the root of queues of it that share quota."""


class ReclaimWaiters:
    def __init__(self) -> None:
        self._kinds: dict[Root, OrderedDict[_Kind, OrderedDict[str, _Asked]]] = {}
        """The refused pods by root and kind, then by uid in the order in which they were refused."""
        self._places: dict[str, tuple[Root, _Kind]] = {}
        self._unchecked: dict[Root, int] = {}
        """The number of kinds of a root that were not checked since a pod took quota there."""
        self._takers: dict[Root, dict[str, int]] = {}
        """The queues whose pods took quota since, each with the lowest priority of these pods."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, policy: QueuePolicy, ask: Ask, *, lacks: bool) -> None:
        """Adds refused pods; the first of them stands for all that are placed together. `lacks` tells whether they
        lacked quota."""
        uid = ask.pod.uid
        self.remove(uid)
        root = policy.label, policy.queue(ask.queue).root
        kind = _Kind(ask.queue, ask.priority, frozenset(ask.wanted.items()), lacks)
        kinds = self._kinds.setdefault(root, OrderedDict())
        kinds.setdefault(kind, OrderedDict())[uid] = _Asked(policy, ask)
        self._places[uid] = root, kind

    def remove(self, uid: str) -> None:
        known = self._places.pop(uid, None)
        if known is not None:
            root, kind = known
            kinds = self._kinds[root]
            del kinds[kind][uid]
            if not kinds[kind]:
                del kinds[kind]
            if not kinds:
                del self._kinds[root]

    def clear(self) -> None:
        self._kinds.clear()
        self._places.clear()
        self._unchecked.clear()
        self._takers.clear()

    def take(self, policy: QueuePolicy, queue: str, priority: int) -> None:
        """Notes that a pod of the queue took quota."""
        root = policy.label, policy.queue(queue).root
        if root in self._kinds:
            self._unchecked[root] = len(self._kinds[root])
            takers = self._takers.setdefault(root, {})
            takers[queue] = min(priority, takers.get(queue, priority))

    @property
    def is_checked(self) -> bool:
        """Whether all kinds were checked since a pod took quota."""
        return not self._unchecked

    def pop(self) -> list[str]:
        """Checks the next kinds. Returns the uid of the first pod of each kind for which pods may be evicted now, and
        removes these pods."""
        found: list[str] = []
        left = _MOST
        for root in list(self._unchecked):
            number = min(left, self._unchecked[root], len(self._kinds.get(root, ())))
            found += [uid for _ in range(number) if (uid := self._check_next(root))]
            left -= number
            self._unchecked[root] -= number
            if not number or not self._unchecked[root]:
                del self._unchecked[root]
                del self._takers[root]
            if not left:
                break
        return found

    def _check_next(self, root: Root) -> str:
        """Checks the next kind; returns the uid of its first pod if pods may be evicted for it, otherwise an empty
        string."""
        kind = next(iter(self._kinds[root]))
        self._kinds[root].move_to_end(kind)
        uid, (policy, ask) = next(iter(self._kinds[root][kind].items()))
        evictions, takers = policy.evictions(ask), self._takers[root].items()
        if not (not kind.lacks and policy.short(ask) is not None) and not any(
            evictions.may_evict(queue, priority, lacks=kind.lacks) for queue, priority in takers
        ):
            return ""
        self.remove(uid)
        return uid
