"""QuotaLog: the quota that was freed or taken since the wait index read the log. No pods are woken here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Hopeful = Callable[[str, int, Iterable[tuple[str, int]]], bool]
"""Tells whether pods of a queue and priority may get the amounts that they want."""


class QuotaFreed(NamedTuple):
    """Quota was freed, or queues may admit pods that they rejected before."""

    roots: tuple[tuple[str, Hopeful], ...]
    """Roots of queues below which quota was freed, each with the check for the pods that wait for it."""
    uids: tuple[str, ...]
    """Pods whose reserved quota is free now."""
    any_queue: bool
    """Whether queues may admit pods now that they rejected before."""


class QuotaTaken(NamedTuple):
    """Pods took quota, which others may reclaim, or queues changed."""

    queues_changed: bool
    """Whether queues were created, changed or deleted, so that all waiting pods are tried again."""
    takers: dict[tuple[str, str], int]
    """The lowest priority of pods that took quota, by label of the queue system and queue."""


class QuotaLog:
    def __init__(self) -> None:
        self._roots: dict[tuple[str, Hopeful], None] = {}
        self._uids: list[str] = []
        self._any_queue = False
        self._takers: dict[tuple[str, str], int] = {}
        self._queues_changed = False

    def free(self, root: str, is_hopeful: Hopeful) -> None:
        """Notes that quota below a root was freed."""
        self._roots[root, is_hopeful] = None

    def free_all(self) -> None:
        """Notes that queues may admit pods now that they rejected before."""
        self._any_queue = True

    def wake(self, uids: Iterable[str]) -> None:
        """Notes that quota which is reserved for the pods is free now."""
        self._uids += uids

    def take(self, label: str, queue: str, priority: int) -> None:
        """Notes that a pod of the queue took quota."""
        self._takers[label, queue] = min(priority, self._takers.get((label, queue), priority))

    def change_queues(self) -> None:
        self._takers.clear()
        self._queues_changed = True

    @property
    def has_freed(self) -> bool:
        return bool(self._roots or self._uids or self._any_queue)

    def pop_freed(self) -> QuotaFreed:
        """Returns the quota that was freed since the last call."""
        freed = QuotaFreed(tuple(self._roots), tuple(self._uids), self._any_queue)
        self._roots, self._uids, self._any_queue = {}, [], False
        return freed

    def pop_taken(self) -> QuotaTaken | None:
        """Returns the quota that was taken since the last call; None if there is none."""
        if not self._takers and not self._queues_changed:
            return None
        taken = QuotaTaken(self._queues_changed, self._takers)
        self._takers, self._queues_changed = {}, False
        return taken
