"""Explainer: why a pod waits. It asks every node, while a decision stops at the first node that fits.

The explainer runs the same plugins in the same order on the same state as decisions do, so that explanations match
decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.allocation import Rejection, Work, allocate
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.messages import diagnosis_text, status_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Detail
from dray.scheduling.model.status import Status
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
