"""QuotaLog: the quota that was freed or taken since the wait index read the log. No pods are woken here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Hopeful = Callable[[str, int, Iterable[tuple[str, int]]], bool]
"""Tells whether pods of a queue and priority may get the amounts that they want."""


@dataclass(slots=True)
class QuotaChanges:
    roots: dict[tuple[str, Hopeful], None] = field(default_factory=dict)
    """Roots of queues below which quota was freed, each with the check for the pods that wait for it; an empty root if
    queues may admit pods now that they rejected before."""
    uids: list[str] = field(default_factory=list)
    """Pods whose reserved quota is free now, or whose turn it is."""
    takers: dict[tuple[str, str], int] = field(default_factory=dict)
    """The lowest priority of pods that took quota, by label of the queue system and queue."""
    kinds: set[str] = field(default_factory=set)
    """Kinds of which objects changed that describe queues: all waiting pods are tried again."""


class QuotaLog:
    def __init__(self) -> None:
        self._changes: QuotaChanges | None = None

    @property
    def _latest(self) -> QuotaChanges:
        if self._changes is None:
            self._changes = QuotaChanges()
        return self._changes

    def free(self, root: str, is_hopeful: Hopeful) -> None:
        """Notes that quota below a root was freed."""
        self._latest.roots[root, is_hopeful] = None

    def free_all(self) -> None:
        """Notes that queues may admit pods now that they rejected before."""
        self.free("", _is_hopeful)

    def wake(self, uids: Iterable[str]) -> None:
        """Notes that pods may use quota now that is reserved for them, or that it is their turn."""
        self._latest.uids.extend(uids)

    def take(self, label: str, queue: str, priority: int) -> None:
        """Notes that a pod of the queue took quota."""
        takers = self._latest.takers
        takers[label, queue] = min(priority, takers.get((label, queue), priority))

    def change_queues(self, kind: str) -> None:
        """Notes that an object of the kind changed."""
        self._latest.kinds.add(kind)
        self._latest.takers.clear()

    def pop(self) -> QuotaChanges | None:
        """Returns the changes since the last call; None if there are none."""
        changes, self._changes = self._changes, None
        return changes


def _is_hopeful(queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
    return True
