"""Attempts: one pod through the stages prefilter, filter, score and reserve, and what follows if it is rejected.

`attempt` takes a pod from the queue and gives the action that follows from it. Each stage can be undone: what `reserve`
takes is given back by `unreserve`, so that several pods can be reserved one after the other and given back together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

from dray.allocation import Work
from dray.api.objects import status_of
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.feasible_nodes import signature_of
from dray.scheduling.core.queue import QueuedPod
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Action, Bind, Preemption, Refuse
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import QUOTA_CODES, Code, ObjectRef
from dray.scheduling.model.status import Diagnosis, Status
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.plugins import queue_quota
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota
from dray.scheduling.plugins.volume_binding import unbound_claims

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler

# Nodes on which the search goes on elsewhere, after one attempt.
_MOST_SEARCHES: Final = 16
_NOWHERE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class InFlightBinding:
    queued: QueuedPod
    placement: Placement


class Attempts:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._framework = scheduler.framework
        self._algorithm = scheduler.algorithm
        self._nominations = scheduler.nominations

    def attempt(self, queued: QueuedPod, now: float, work: Work) -> Action | None:
        if not queued.pod.joins:
            return self._attempt(queued, now, work)
        with self._state.queues.lent_to(queued.pod):
            return self._attempt(queued, now, work)

    def _attempt(self, queued: QueuedPod, now: float, work: Work) -> Action | None:
        pod = queued.pod
        cycle = self._algorithm.begin(pod, now, work)
        if self._framework.pre_enqueue(pod) is not None:
            self._scheduler.enqueue(queued, now)
            return None
        with self._nominations.out_of_sight_of(pod):
            status = self._framework.prefilter(cycle)
            queue_quota.register(self._state, cycle, status)
            if status is not None:
                self._state.queues.waiters.passed(pod.uid)
                return self._reject_everywhere(queued, cycle, status)
            alone = bool(self._framework.own_filters(cycle)) or cycle.nodes is not None
            group = None if alone else self._queue.known(_group_key(cycle), queued)
            known = group.diagnosis if group is not None else None
            answer = self._algorithm.schedule(cycle, known)
            if isinstance(answer, Diagnosis) and self._scheduler.drains.active:
                answer = self._beside_drain(cycle, answer, known)
            if isinstance(answer, Diagnosis):
                return self._reject(queued, cycle, answer, alone=alone, known=answer is known)
            if (full := self._scheduler.devices.full_claim(cycle)) is not None:
                return self._reject_everywhere(queued, cycle, full)
            self.reserve(queued, answer)
            return self.binding(queued, answer)

    def _beside_drain(self, cycle: Cycle, diagnosis: Diagnosis, known: Diagnosis | None) -> Placement | Diagnosis:
        """Once more with what is kept for a group: those may have it that end in time, and others are told."""
        drains = self._scheduler.drains
        passes = drains.lets_pass((cycle.pod,), cycle.now)
        if diagnosis is known and not passes:
            return diagnosis
        with self._nominations.without_draining():
            answer = self._algorithm.schedule(cycle)
        if isinstance(answer, Diagnosis):
            return diagnosis
        return answer if passes else Diagnosis(self._state.size, drains.status())

    # Stages with an undo

    def reserve(self, queued: QueuedPod, placement: Placement) -> None:
        """The pod is assumed to be on its node, and has what it needs there."""
        self._nominations.drop(queued.pod.uid)
        self._scheduler.drains.forget_pod(queued.pod.uid)
        self._algorithm.assume(placement)
        self.start_binding(queued, placement)

    def start_binding(self, queued: QueuedPod, placement: Placement) -> None:
        """The pod is assumed to be on its node, and nobody decides on it again meanwhile."""
        self._scheduler.in_flight[queued.pod.uid] = InFlightBinding(queued, placement)
        if self._scheduler.drains.waiting:
            self._scheduler.drains.went_past(queued)
        self._state.queues.decided(queued.pod)
        self._queue.start_binding(queued, placement.cycle.now)

    def unreserve(self, binding: InFlightBinding) -> list[ObjectRef]:
        """What was reserved and not written is free again; the pod itself stays on its node in thought."""
        return self._framework.unreserve(binding.placement.cycle, binding.placement.node)

    def binding(self, queued: QueuedPod, placement: Placement) -> Bind:
        """What is to be written, once it is reserved."""
        cycle, devices = placement.cycle, placement.devices
        return Bind(
            queued.pod,
            placement.node.name,
            self._scheduler.devices.writes(cycle),
            cycle.claims.claims,
            devices.extended.mappings if devices.extended is not None else (),
            devices.node_allocatable,
            unbound_claims(cycle),
        )

    # Rejections

    def give_up(self, queued: QueuedPod, error: Exception, now: float) -> Refuse | None:
        """An attempt ended in an error that nobody expected: the others go on, and this pod is tried later."""
        pod = queued.pod
        self._state.report(f"scheduling pod {pod.key[0]}/{pod.key[1]}", error)
        self._nominations.give_up(pod.uid)
        self._scheduler.drains.forget_pod(pod.uid)
        status = Status.of("", Code.SCHEDULER_FAILED, faults.text(error), error=True)
        diagnosis = Diagnosis(self._state.size, status, error=True)
        self._queue.add_unschedulable(queued, ("failed", pod.uid), None, diagnosis, now, nodes=_NOWHERE, error=True)
        return _report(queued, diagnosis)

    def _reject_everywhere(self, queued: QueuedPod, cycle: Cycle, status: Status) -> Action | None:
        """The pod fits on no node, whatever the nodes say."""
        pod, now = queued.pod, cycle.now
        if status.pending:
            self._queue.gate(queued, now)
            return None
        self._scheduler.drains.forget_pod(pod.uid)
        self._scheduler.waiters.add(pod.uid, status.waits_for)
        diagnosis = Diagnosis(self._state.size, status, error=status.error)
        self._queue.add_unschedulable(
            queued,
            ("rejected", status.alike or pod.uid),
            None,
            diagnosis,
            now,
            nodes=_NOWHERE,
            cluster_wide=not status.waits_for and self._framework.is_cluster_wide(status.plugin),
            error=status.error,
        )
        leftover = cycle.claims.leftover
        reclaims = leftover is None and status.plugin == QueueQuota.name
        result = self._reclaim(cycle) if reclaims else EvictionResult[Preemption]()
        preemption = result.found
        asked = cycle.data.get(QueueQuota.name)
        if reclaims and preemption is None and isinstance(asked, QueuedAsk):
            self._state.queues.reclaim_waiters.add(asked.policy, asked.ask, lacks=True)
        if reclaims and preemption is None and queued.group is not None:
            queued.group.binding_may_help = result.awaits_binding
            if result.lacks_place:
                # Room on any node may be what it lacked.
                queued.group.nodes = None
        if preemption is None or not preemption.node:
            self._nominations.give_up(pod.uid)
        if leftover is not None:
            return Refuse(pod, diagnosis, news=False, discard=leftover)
        if preemption is None or not preemption.victims:
            return _report(queued, diagnosis)
        news = queued.reported != diagnosis
        queued.reported = diagnosis
        return Refuse(pod, diagnosis, news, preemption=preemption)

    def _reclaim(self, cycle: Cycle) -> EvictionResult[Preemption]:
        """Finds pods to evict for quota that the pod lacks. Its place is kept until it is tried again."""
        known = cycle.data.get(QueueQuota.name)
        if not isinstance(known, QueuedAsk):
            return EvictionResult()
        result = self._scheduler.reclaimer.for_pod(known, cycle)
        if result.found is not None and result.found.node:
            self._nominations.keep(cycle.pod, result.found)
        return result

    def _reject(
        self, queued: QueuedPod, cycle: Cycle, diagnosis: Diagnosis, *, alone: bool, known: bool
    ) -> Action | None:
        """No node fits: what to do about it, and what to wait for."""
        pod, preemptor, drains = queued.pod, self._scheduler.preemptor, self._scheduler.drains
        undecided = tuple(cycle.undecided.values())
        release = None if diagnosis.error else self._algorithm.to_deallocate(cycle)
        searched = EvictionResult[Preemption]()
        if release is not None:
            diagnosis = replace(diagnosis, deallocated=True)
        elif undecided:
            # Nobody is removed for a pod that may fit as things are.
            self._search_on(cycle, undecided)
        elif pod.preempts and not diagnosis.error and not (known and self._is_futile(cycle)):
            searched = preemptor.find(cycle)
        preemption = searched.found
        short = _short_on_nodes(cycle, diagnosis)
        reclaimed = EvictionResult[Preemption]()
        if (
            (short or _has_flavors(cycle))
            and release is None
            and preemption is None
            and not undecided
            and not diagnosis.error
        ):
            # There is quota, and not where there is a place, or could be: others may have to leave what they borrowed.
            reclaimed = self._reclaim(cycle)
        if reclaimed.found is not None:
            preemption = reclaimed.found
        elif preemption is not None:
            self._nominations.keep(pod, preemption)
            self._state.queues.make_room([(pod, self._state.nodes[preemption.node])], preemption.victims)
        elif release is None:
            # Others must not keep off a place that it cannot have.
            self._nominations.give_up(pod.uid)
            if isinstance(asked := cycle.data.get(QueueQuota.name), QueuedAsk):
                self._state.queues.reclaim_waiters.add(asked.policy, asked.ask, lacks=False)
        if preemption is not None or release is not None or undecided or diagnosis.error:
            drains.forget_pod(pod.uid)
        elif cycle.claims.demand.is_several(pod.requirements.requests):
            self._scheduler.group_attempts.drain_for(queued, cycle.now)
        self._wait(queued, cycle, diagnosis, alone=alone)
        if preemption is None and searched.retry_at < inf:
            self._queue.try_at(queued, searched.retry_at, cycle.now)
        if queued.group is not None and not known:
            queued.group.preemption_futile = preemption is None
            awaits_binding = searched.awaits_binding or reclaimed.awaits_binding
            queued.group.binding_may_help = preemption is None and awaits_binding
        if queued.group is not None:
            queued.group.waits_for = short
        if queued.group is not None and drains.awaits_binding_of(pod.uid):
            queued.group.binding_may_help = True
        diagnosis = replace(diagnosis, draining=drains.draining_of(pod.uid))
        if release is None and (preemption is None or not is_news(pod, preemption)):
            return _report(queued, diagnosis)
        news = queued.reported != diagnosis
        queued.reported = diagnosis
        return Refuse(pod, diagnosis, news, release, preemption=preemption)

    def _wait(self, queued: QueuedPod, cycle: Cycle, diagnosis: Diagnosis, *, alone: bool) -> None:
        pod, devices, drains = cycle.pod, self._scheduler.devices, self._scheduler.drains
        nodes = cycle.nodes
        passes = drains.active and drains.lets_pass((pod,), cycle.now)
        # What only it uses can be given back wherever there is a place for it.
        if nodes is not None and any(devices.is_releasable(claim, pod) for claim in cycle.claims.allocated):
            nodes = None
        self._queue.add_unschedulable(
            queued,
            _group_key(cycle, pod.uid if alone else "backfill" if passes else ""),
            signature_of(cycle),
            diagnosis,
            cycle.now,
            nodes=nodes,
            # What is kept for a group looks taken, and is not for those that end in time.
            cluster_wide=passes or bool(self._framework.own_filters(cycle)),
            error=diagnosis.error,
        )

    def _search_on(self, cycle: Cycle, nodes: Sequence[Node]) -> None:
        devices = self._scheduler.devices
        for node in nodes[:_MOST_SEARCHES]:
            claims, _ = devices.claims_on(cycle, node)
            devices.searches.want(cycle.pod.uid, cycle.claims.demand, node, claims)

    def _is_futile(self, cycle: Cycle) -> bool:
        group = self._queue.known(_group_key(cycle))
        return group is not None and group.preemption_futile


def _group_key(cycle: Cycle, alone: str = "") -> tuple[object, ...]:
    """Pods wait together whose answer depends on nothing but their signature: no claims of their own, no terms about
    other pods."""
    pod, asked = cycle.pod, cycle.data.get(QueueQuota.name)
    queue = asked.ask.queue if isinstance(asked, QueuedAsk) else ""
    return pod.requirements, cycle.claims.demand, pod.priority, pod.preempts, queue, alone


def _has_flavors(cycle: Cycle) -> bool:
    asked = cycle.data.get(QueueQuota.name)
    return isinstance(asked, QueuedAsk) and not asked.is_uniform


def _short_on_nodes(cycle: Cycle, diagnosis: Diagnosis) -> tuple[ObjectRef, ...]:
    """What the queue of the pod has too little of for some nodes, and not for all."""
    asked = cycle.data.get(QueueQuota.name)
    if not isinstance(asked, QueuedAsk):
        return ()
    reasons = (reason for reason, _ in diagnosis.counts if reason.code in QUOTA_CODES)
    return tuple({asked.lacks(each) for each in reasons})


def is_news(pod: Pod, preemption: Preemption) -> bool:
    """Whether there is something to do about it, or its node has yet to be named in the pod's status."""
    return bool(preemption.victims) or status_of(pod.document).get("nominatedNodeName") != preemption.node


def _report(queued: QueuedPod, diagnosis: Diagnosis) -> Refuse | None:
    """Nothing, if it was reported before."""
    if queued.reported == diagnosis:
        return None
    queued.reported = diagnosis
    return Refuse(queued.pod, diagnosis)
