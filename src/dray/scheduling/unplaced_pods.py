"""UnplacedPods: pods that had quota of their queue and found no place on any node.

When others take that quota, they may reclaim it, and a place with it: then the first of those that ask for the same is
tried again.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.scheduling.queue_policy import Ask, QueuePolicy


class _Kind(NamedTuple):
    """What pods ask for that are short of quota at the same time."""

    queue: str
    priority: int
    wanted: frozenset[tuple[str, int]]


class _Asked(NamedTuple):
    policy: QueuePolicy
    ask: Ask


Root = tuple[str, str]
"""The label of a front end, and what its queues below it share."""


class UnplacedPods:
    def __init__(self) -> None:
        self._kinds: dict[Root, dict[_Kind, dict[str, _Asked]]] = {}
        """The last by pod uid, in the order in which they were refused."""
        self._places: dict[str, tuple[Root, _Kind]] = {}
        self._taken: set[Root] = set()
        """Where somebody took quota since it was last looked who is short of it."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, policy: QueuePolicy, ask: Ask) -> None:
        """The first of the pods stands for all that are placed with it."""
        uid = ask.pod.uid
        self.remove(uid)
        root = policy.label, policy.root(ask.queue)
        kind = _Kind(ask.queue, ask.priority, frozenset(ask.wanted.items()))
        self._kinds.setdefault(root, {}).setdefault(kind, {})[uid] = _Asked(policy, ask)
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
        self._taken.clear()

    def take(self, policy: QueuePolicy, queue: str) -> None:
        """Somebody took quota of the queue, or of one that it lends to."""
        root = policy.label, policy.root(queue)
        if root in self._kinds:
            self._taken.add(root)

    def pop_short(self) -> list[str]:
        """By uid, one of each kind that has too little quota now; they are not remembered any longer."""
        taken, self._taken = self._taken, set()
        found = []
        for root in taken:
            for waiting in self._kinds.get(root, {}).values():
                uid, (policy, ask) = next(iter(waiting.items()))
                if policy.short(ask) is not None:
                    found.append(uid)
        for uid in found:
            self.remove(uid)
        return found
