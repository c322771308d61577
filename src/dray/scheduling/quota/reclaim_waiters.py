"""ReclaimWaiters: pods of queues that may have others removed once these take something.

A pod that had quota and found no place may reclaim both when others take that quota, or more than their share. A pod
that lacked quota and found nobody to take it from may once somebody takes some who has to give way to it. The first of
those that ask for the same is tried again then. There may be thousands of kinds: a few are looked at at a time, in
turn.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from dray.scheduling.quota.queue_policy import Ask, QueuePolicy

# Kinds that are looked at at a time, each of which costs some microseconds.
_MOST: Final = 64


class _Kind(NamedTuple):
    """What pods ask for that can be helped at the same time."""

    queue: str
    priority: int
    wanted: frozenset[tuple[str, int]]
    lacks: bool


class _Asked(NamedTuple):
    policy: QueuePolicy
    ask: Ask


Root = tuple[str, str]
"""The label of a queue system, and the root of queues of it that share quota."""


class ReclaimWaiters:
    def __init__(self) -> None:
        self._kinds: dict[Root, OrderedDict[_Kind, OrderedDict[str, _Asked]]] = {}
        """The last by pod uid, in the order in which they were refused."""
        self._places: dict[str, tuple[Root, _Kind]] = {}
        self._unchecked: dict[Root, int] = {}
        """Where somebody took quota, how many kinds have not been looked at since."""
        self._takers: dict[Root, dict[str, int]] = {}
        """Who that was: queues, and the lowest priority."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, policy: QueuePolicy, ask: Ask, *, lacks: bool) -> None:
        """The first of the pods stands for all that are placed with it; `lacks` tells whether it was quota that they
        lacked."""
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
        """A pod of the queue took quota."""
        root = policy.label, policy.queue(queue).root
        if root in self._kinds:
            self._unchecked[root] = len(self._kinds[root])
            takers = self._takers.setdefault(root, {})
            takers[queue] = min(priority, takers.get(queue, priority))

    @property
    def is_checked(self) -> bool:
        """Whether all were looked at since somebody took quota."""
        return not self._unchecked

    def pop(self) -> list[str]:
        """By uid, one of each kind that may be helped, of those whose turn it is to be looked at; they are not
        remembered any longer."""
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
        """The first pod of the next kind if it may be helped."""
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
