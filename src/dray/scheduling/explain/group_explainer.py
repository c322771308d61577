"""GroupExplainer: why a group waits, cause by cause: its size, its queue, its topology, its devices.

A decision stops at the first cause. Here each cause is checked by itself, with the same plugins on the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.model.status import GroupDiagnosis, Status
from dray.scheduling.scheduler import Scheduler


class QueueAnswer(Protocol):
    @property
    def problem(self) -> Reason | None:
        """Why the queue does not admit the pods that must start together."""


Q = TypeVar("Q", bound=QueueAnswer)


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The numbers of pods of a group."""

    group: Group
    least: int
    """How many pods have to start together."""
    pods: int
    placed: int
    succeeded: int
    ready: int
    """Waiting pods that can be tried: no plugin holds them back before the queue."""


@dataclass(frozen=True)
class GroupExplanation(Generic[Q]):
    group: Group
    """The root of the tree of groups, which is placed as one unit."""
    sizes: tuple[GroupSize, ...]
    started: bool
    """Whether as many pods are on nodes as have to start together."""
    waiting: int
    obstacle: Status | None = None
    """Why pods of the group are held back before the queue."""
    queue: Q | None = None
    """The answer of the group's queue; None if its pods name no queue."""
    diagnosis: GroupDiagnosis | None = None
    """Why the group does not fit if its queue admits it; None if it fits."""


class GroupExplainer(Generic[Q]):
    """`queue_answer` returns the answer of the queue for pods that start together; None for pods in no queue."""

    def __init__(self, scheduler: Scheduler, queue_answer: Callable[[Sequence[Pod]], Q | None]) -> None:
        self._scheduler = scheduler
        self._queue_answer = queue_answer
        self._state = scheduler.state

    def explain(self, group: Group, now: float) -> GroupExplanation[Q]:
        groups = self._state.groups
        root = groups.root(group)
        root = root if isinstance(root, Group) else group
        sizes = tuple(self._size(leaf) for leaf in groups.leaves(root))
        waiting = [pod for pod in groups.waiting(root) if self._state.placed(pod.uid) is None]
        started = groups.is_started(root)
        if not waiting:
            return GroupExplanation(root, sizes, started, 0)
        obstacle = self._obstacle(root, waiting)
        queue = self._queue_answer(waiting[: groups.need(root)])
        diagnosis = None
        lacks_quota = queue is not None and queue.problem is not None
        if obstacle is None:
            with self._state.queues.unasked() if lacks_quota else nullcontext():
                diagnosis = self._scheduler.attempts.diagnose(waiting[0], now)
        return GroupExplanation(root, sizes, started, len(waiting), obstacle, queue, diagnosis)

    def _size(self, group: Group) -> GroupSize:
        members = self._state.groups.members(group.key)
        succeeded, placed = len(members.succeeded - members.placed.keys()), len(members.placed)
        ready = len(members.ready - members.placed.keys())
        return GroupSize(group, max(1, group.min_count), members.number, placed, succeeded, ready)

    def _obstacle(self, root: Group, waiting: list[Pod]) -> Status | None:
        """Why pods are held back; None if enough of them can be tried."""
        if self._state.groups.is_ready(root):
            return None
        statuses = (self._scheduler.framework.pre_enqueue(pod) for pod in waiting)
        return next((status for status in statuses if status is not None), None)
