"""Explainer: why a pod or a group waits. It asks every node, while a decision stops at the first node that fits.

The explainer runs the same plugins in the same order on the same state as decisions do, so that explanations match
decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dray.allocation import Rejection, Work, allocate
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.messages import diagnosis_text, status_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Detail, Reason
from dray.scheduling.model.status import GroupDiagnosis, Status
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.plugins.dynamic_resources import NOT_AVAILABLE, DynamicResources
from dray.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer of one node; the pod fits on the node if there is no status."""

    node: str
    status: Status | None = None
    details: tuple[Detail, ...] = ()
    """Details of the status, e.g. which resource is short and by how much."""
    lacks_devices: bool = False
    """Whether only devices are missing; `Explainer.rejection` tells which."""
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    problem: str = ""
    """Why the pod is rejected before nodes are asked; empty if nodes were asked."""
    nodes: tuple[NodeAnswer, ...] = ()
    preemption: Preemption | None = None
    """The pods that could be preempted, if the pod fits on no node."""
    cycle: Cycle | None = None
    chosen: str = ""
    """The node that would be chosen; empty if the pod fits on no node."""


class Explainer:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state

    def explain(self, pod: Pod, now: float) -> Explanation:
        try:
            return self._explain(pod, now)
        except Exception as error:
            return Explanation(f"the scheduler fails on this pod: {faults.text(error)}")

    def _explain(self, pod: Pod, now: float) -> Explanation:
        framework, algorithm = self._scheduler.framework, self._scheduler.algorithm
        cycle = algorithm.begin(pod, now, Work())
        status = framework.pre_enqueue(pod) or framework.prefilter(cycle) or self._scheduler.devices.full_claim(cycle)
        if status is not None:
            return Explanation(status_text(status))
        if (group := self._scheduler.attempts.diagnose(pod, now)) is not None:
            return Explanation(diagnosis_text(group))
        answers = tuple(self._answers(cycle))
        fits = any(answer.placement for answer in answers)
        if fits and (error := algorithm.find_error(cycle)) is not None:
            # An error on one node keeps the pod from all nodes.
            return Explanation(status_text(error))
        preemption = self._scheduler.preemptor.find(cycle).found if pod.preempts and not fits else None
        chosen = algorithm.schedule(cycle) if fits else None
        name = chosen.node.name if isinstance(chosen, Placement) else ""
        return Explanation(nodes=answers, preemption=preemption, cycle=cycle, chosen=name)

    def _answers(self, cycle: Cycle) -> Iterator[NodeAnswer]:
        for node in sorted(self._state, key=lambda node: node.name):
            answer = self._scheduler.algorithm.fits(cycle, node)
            if isinstance(answer, Placement):
                yield NodeAnswer(node.name, placement=answer)
                continue
            claims, _ = self._scheduler.devices.claims_on(cycle, node)
            lacking = answer.plugin == DynamicResources.name and answer is not NOT_AVAILABLE and bool(claims)
            details = self._scheduler.framework.details(answer, cycle, node)
            yield NodeAnswer(node.name, answer, details, lacks_devices=lacking)

    def rejection(self, cycle: Cycle, node: Node) -> Rejection | None:
        """Returns the allocator's full rejection of the pod's claims on the node; None if there is none."""
        claims, _ = self._scheduler.devices.claims_on(cycle, node)
        assert node.document is not None
        policy, beside = self._scheduler.options.policy, cycle.claims.allocated
        answer = allocate(self._state.inventory, node.document, claims, beside=beside, policy=policy)
        return answer if isinstance(answer, Rejection) else None


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
    """Tells why a group waits, cause by cause. A decision stops at the first cause.

    `queue_answer` returns the answer of the queue for pods that start together; None for pods in no queue.
    """

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
            with self._state.what_if() as trial:
                if lacks_quota:
                    self._state.queues.leave_out(trial)
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
