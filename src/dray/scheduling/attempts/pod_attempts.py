"""Attempts: one pod through the stages prefilter, filter, score and reserve, and what follows if it is rejected.

An attempt decides first and acts then. `_decide` is the list of steps; it returns an `Outcome`, and `_apply` carries it
out: a reservation, evictions, or what the pod waits for. What `reserve` takes is given back by `unreserve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dray.allocation import Work
from dray.api.objects import status_of
from dray.scheduling.attempts.outcome import Outcome, Remedy
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.feasible_nodes import signature_of
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
from dray.scheduling.waiting.queued_pods import QueuedPod
from dray.scheduling.waiting.waits import Wait

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
        cycle = self._algorithm.begin(queued.pod, now, work)
        if self._framework.pre_enqueue(queued.pod) is not None:
            self._scheduler.enqueue(queued, now)
            return None
        with self._nominations.hidden_from(queued.pod):
            return self._apply(queued, cycle, self._decide(queued, cycle))

    # Steps, which decide

    def _decide(self, queued: QueuedPod, cycle: Cycle) -> Outcome:
        """Goes through the steps of an attempt until one of them knows what to do."""
        # First what concerns the pod itself, as it needs no look at any node: its claims, volumes and quota.
        status = self._framework.prefilter(cycle)
        queue_quota.register(self._state, cycle, status)
        if status is not None:
            self._state.queues.waiters.passed(cycle.pod.uid)
            return self._rejected(cycle, status)
        # Then the nodes. Pods that wait together got the same answer before, unless nodes have changed since.
        alone = bool(self._framework.own_filters(cycle)) or cycle.nodes is not None
        entry = None if alone else self._queue.entries.known(_wait_key(cycle), queued)
        known = entry.diagnosis if entry is not None else None
        answer = self._algorithm.schedule(cycle, known)
        # Places that are reserved for groups look taken. Pods that end in time may have them all the same.
        if isinstance(answer, Diagnosis) and self._scheduler.reservations.active:
            answer = self._beside_reservation(cycle, answer, known)
        if isinstance(answer, Diagnosis):
            return self._remedy(cycle, answer, alone=alone, known=answer is known)
        # Last, since only a pod that has a place needs it: room in the list of a shared claim's consumers.
        if (full := self._scheduler.devices.full_claim(cycle)) is not None:
            return self._rejected(cycle, full)
        return Outcome(Remedy.PLACE, placement=answer)

    def _rejected(self, cycle: Cycle, status: Status) -> Outcome:
        """The pod fits on no node, whatever the nodes say."""
        if status.pending:
            return Outcome(Remedy.GATE)
        wait = Wait(
            ("rejected", status.alike or cycle.pod.uid),
            nodes=_NOWHERE,
            cluster_wide=not status.waits_for and self._framework.is_cluster_wide(status.plugin),
            objects=status.waits_for,
            binding=None,
            futile=None,
            error=status.error,
        )
        diagnosis = Diagnosis(self._state.size, status, error=status.error)
        if cycle.claims.leftover is not None:
            return Outcome(Remedy.DISCARD, diagnosis, wait, claim=cycle.claims.leftover)
        if status.plugin != QueueQuota.name:
            return Outcome(Remedy.WAIT, diagnosis, wait)
        result = self._reclaim(cycle)
        if result.found is not None:
            return Outcome(Remedy.RECLAIM, diagnosis, wait, preemption=result.found)
        # Where quota would be there, room on any node may be what the pod lacked.
        nodes = None if result.lacks_place else _NOWHERE
        wait = replace(wait, nodes=nodes, binding=result.awaits_binding)
        lacks_quota = True if isinstance(cycle.data.get(QueueQuota.name), QueuedAsk) else None
        return Outcome(Remedy.WAIT, diagnosis, wait, lacks_quota=lacks_quota)

    def _remedy(self, cycle: Cycle, diagnosis: Diagnosis, *, alone: bool, known: bool) -> Outcome:
        """No node fits: looks for something that helps, the least disturbing first."""
        wait = self._wait(cycle, diagnosis, alone=alone, known=known)
        if diagnosis.error:
            return Outcome(Remedy.WAIT, diagnosis, wait, lacks_quota=_if_asked(cycle))
        if (claim := self._algorithm.to_deallocate(cycle)) is not None:
            return Outcome(Remedy.RELEASE, replace(diagnosis, deallocated=True), wait, claim=claim)
        if cycle.undecided:
            # No pod is evicted for one that may fit as things are.
            searches = tuple(cycle.undecided.values())
            return Outcome(Remedy.SEARCH, diagnosis, wait, searches=searches, lacks_quota=_if_asked(cycle))
        preempted, reclaimed = EvictionResult[Preemption](), EvictionResult[Preemption]()
        if cycle.pod.preempts and not (known and self._is_futile(cycle)):
            preempted = self._scheduler.preemptor.find(cycle)
        evicting = replace(wait, futile=None if known else False)
        if preempted.found is not None:
            return Outcome(Remedy.PREEMPT, diagnosis, evicting, preemption=preempted.found)
        if wait.quota or _has_flavors(cycle):
            # There is quota, but not where there is or could be a place: other queues may have borrowed it there.
            reclaimed = self._reclaim(cycle)
        if reclaimed.found is not None:
            return Outcome(Remedy.RECLAIM, diagnosis, evicting, preemption=reclaimed.found)
        awaits_binding = preempted.awaits_binding or reclaimed.awaits_binding
        wait = replace(wait, at=preempted.retry_at, binding=None if known else awaits_binding)
        return Outcome(Remedy.WAIT, diagnosis, wait, may_reserve=True, lacks_quota=_if_asked(cycle))

    def _reclaim(self, cycle: Cycle) -> EvictionResult[Preemption]:
        """Finds pods to evict for quota that the pod lacks."""
        asked = cycle.data.get(QueueQuota.name)
        return self._scheduler.reclaimer.for_pod(asked, cycle) if isinstance(asked, QueuedAsk) else EvictionResult()

    def _wait(self, cycle: Cycle, diagnosis: Diagnosis, *, alone: bool, known: bool) -> Wait:
        """Returns what a pod waits for that no node takes."""
        pod, devices, reservations = cycle.pod, self._scheduler.devices, self._scheduler.reservations
        nodes = cycle.nodes
        passes = reservations.active and reservations.lets_pass((pod,), cycle.now)
        # Devices that only the pod uses can be given back wherever there is a place for it.
        if nodes is not None and any(devices.is_releasable(claim, pod) for claim in cycle.claims.allocated):
            nodes = None
        return Wait(
            _wait_key(cycle, pod.uid if alone else "backfill" if passes else ""),
            signature_of(cycle),
            nodes,
            # A reserved place looks taken, but not to pods that end in time.
            cluster_wide=passes or bool(self._framework.own_filters(cycle)),
            quota=_short_on_nodes(cycle, diagnosis),
            # Until an eviction is found, none helps. Pods that wait together need not search again.
            binding=None if known else False,
            futile=None if known else True,
            error=diagnosis.error,
        )

    def _is_futile(self, cycle: Cycle) -> bool:
        entry = self._queue.entries.known(_wait_key(cycle))
        return entry is not None and bool(entry.wait.futile)

    def _beside_reservation(self, cycle: Cycle, diagnosis: Diagnosis, known: Diagnosis | None) -> Placement | Diagnosis:
        """Once more with what is kept for a group: those may have it that end in time, and others are told."""
        reservations = self._scheduler.reservations
        passes = reservations.lets_pass((cycle.pod,), cycle.now)
        if diagnosis is known and not passes:
            return diagnosis
        with self._nominations.without_reservations():
            answer = self._algorithm.schedule(cycle)
        if isinstance(answer, Diagnosis):
            return diagnosis
        return answer if passes else Diagnosis(self._state.size, reservations.status())

    # Stages with an undo

    def reserve(self, queued: QueuedPod, placement: Placement) -> None:
        """The pod is assumed to be on its node, and has what it needs there."""
        self._nominations.drop(queued.pod.uid)
        self._scheduler.reservations.forget_pod(queued.pod.uid)
        self._algorithm.assume(placement)
        self.start_binding(queued, placement)

    def start_binding(self, queued: QueuedPod, placement: Placement) -> None:
        """The pod is assumed to be on its node, and nobody decides on it again meanwhile."""
        self._scheduler.in_flight[queued.pod.uid] = InFlightBinding(queued, placement)
        if self._scheduler.reservations.waiting:
            self._scheduler.reservations.went_past(queued)
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

    # Outcomes, which change the state

    def _apply(self, queued: QueuedPod, cycle: Cycle, outcome: Outcome) -> Action | None:
        if outcome.placement is not None:
            self.reserve(queued, outcome.placement)
            return self.binding(queued, outcome.placement)
        if outcome.remedy is Remedy.GATE:
            self._queue.gate(queued, cycle.now)
            return None
        diagnosis, wait = outcome.diagnosis, outcome.wait
        assert diagnosis is not None
        assert wait is not None
        self._keep_place(cycle, outcome)
        self._search_on(cycle, outcome.searches)
        diagnosis, wait = self._reserve_for_later(queued, cycle, outcome, diagnosis, wait)
        self._scheduler.waiters.add(queued.pod.uid, wait.objects)
        self._queue.add_unschedulable(queued, outcome.diagnosis, wait, cycle.now)
        return self._refusal(queued, outcome, diagnosis)

    def _keep_place(self, cycle: Cycle, outcome: Outcome) -> None:
        """Keeps place and quota for a pod for which others are evicted. Others may have the place of a pod that
        cannot have it."""
        pod, preemption, queues = cycle.pod, outcome.preemption, self._state.queues
        if outcome.remedy is Remedy.RELEASE:
            return
        if preemption is None or not preemption.node:
            self._nominations.give_up(pod.uid)
        else:
            self._nominations.keep(pod, preemption)
        if preemption is not None and outcome.remedy is Remedy.PREEMPT:
            queues.make_room([(pod, self._state.nodes[preemption.node])], preemption.victims)
        asked = cycle.data.get(QueueQuota.name)
        if outcome.lacks_quota is not None and isinstance(asked, QueuedAsk):
            queues.reclaim_waiters.add(asked.policy, asked.ask, lacks=outcome.lacks_quota)

    def _reserve_for_later(
        self, queued: QueuedPod, cycle: Cycle, outcome: Outcome, diagnosis: Diagnosis, wait: Wait
    ) -> tuple[Diagnosis, Wait]:
        """Reserves a place that will be free, for a pod that needs several devices."""
        pod, reservations = queued.pod, self._scheduler.reservations
        if not outcome.may_reserve:
            reservations.forget_pod(pod.uid)
            return diagnosis, wait
        if cycle.claims.demand.is_several(pod.requirements.requests):
            self._scheduler.group_attempts.reserve_place_for(queued, cycle.now)
        if reservations.awaits_binding_of(pod.uid):
            wait = replace(wait, binding=True)
        return replace(diagnosis, reservation=reservations.period_of(pod.uid)), wait

    def _refusal(self, queued: QueuedPod, outcome: Outcome, diagnosis: Diagnosis) -> Refuse | None:
        """Returns what to write: evictions, a claim to give back, or a reason that is new."""
        pod, preemption = queued.pod, outcome.preemption
        if outcome.remedy is Remedy.DISCARD:
            return Refuse(pod, diagnosis, news=False, discard=outcome.claim)
        is_preempting = preemption is not None and is_news(pod, preemption)
        if outcome.remedy is not Remedy.RELEASE and not is_preempting:
            return self._report(queued, diagnosis)
        news = self._scheduler.reasons.report(queued, diagnosis)
        return Refuse(pod, diagnosis, news, outcome.claim, preemption=preemption)

    def give_up(self, queued: QueuedPod, error: Exception, now: float) -> Refuse | None:
        """An attempt ended in an unexpected error: the others go on, and this pod is tried later."""
        pod = queued.pod
        self._state.report(f"scheduling pod {pod.key[0]}/{pod.key[1]}", error)
        self._nominations.give_up(pod.uid)
        self._scheduler.reservations.forget_pod(pod.uid)
        status = Status.of("", Code.SCHEDULER_FAILED, faults.text(error), error=True)
        diagnosis = Diagnosis(self._state.size, status, error=True)
        self._queue.add_unschedulable(queued, diagnosis, Wait(("failed", pod.uid), nodes=_NOWHERE, error=True), now)
        return self._report(queued, diagnosis)

    def _report(self, queued: QueuedPod, diagnosis: Diagnosis) -> Refuse | None:
        """Returns None for a reason that was reported before."""
        return Refuse(queued.pod, diagnosis) if self._scheduler.reasons.report(queued, diagnosis) else None

    def _search_on(self, cycle: Cycle, nodes: Sequence[Node]) -> None:
        devices = self._scheduler.devices
        for node in nodes[:_MOST_SEARCHES]:
            claims, _ = devices.claims_on(cycle, node)
            devices.searches.want(cycle.pod.uid, cycle.claims.demand, node, claims)


def _if_asked(cycle: Cycle) -> bool | None:
    """Returns False for a pod that has quota and lacks a place, and None for one that asked for no quota."""
    return False if isinstance(cycle.data.get(QueueQuota.name), QueuedAsk) else None


def _wait_key(cycle: Cycle, alone: str = "") -> tuple[object, ...]:
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
