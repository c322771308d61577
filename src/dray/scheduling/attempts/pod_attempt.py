"""PodAttempt: the steps of an attempt for a single pod. It filters nodes one by one, and needs no trial.

Pods that wait together got the same answer before, so only nodes that changed since are filtered again.
"""

from __future__ import annotations

from contextlib import nullcontext
from math import inf
from typing import Final

from dray.allocation import Work
from dray.api.objects import Object
from dray.scheduling.attempts.attempt import Attempt, Outcome, Remedy, Unmet
from dray.scheduling.attempts.context import Context
from dray.scheduling.core.feasible_nodes import signature_of
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import QUOTA_CODES, ObjectRef
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota
from dray.scheduling.waiting.queued_pods import QueuedPod, Wait
from dray.scheduling.waiting.quota_waits import QUOTA

NOWHERE: Final[frozenset[int]] = frozenset()
"""An empty set of node numbers."""
_NO_TRIAL: Final = nullcontext()
# The maximum number of nodes on which the search continues in the background after one attempt.
_MOST_SEARCHES: Final = 16


class PodAttempt(Attempt):
    def __init__(self, context: Context, queued: QueuedPod, now: float, work: Work) -> None:
        super().__init__(context, (queued,), now)
        self.cycle = context.algorithm.begin(queued.pod, now, work)
        self._is_alone = False
        """Whether the answer depends on more than the signature of the pod."""
        self._is_futile = False
        """Whether evictions were searched for in vain for a pod that waits for the same."""
        self._asked: QueuedAsk | None = None
        """The ask of the pod to its queue, known after the prefilter; None for a pod in no queue."""
        self._key: tuple[object, ...] = ()
        """The key of pods that wait together with the pod; empty while it is not needed."""

    def _admit(self) -> Outcome | None:
        # The prefilter checks the quota of a single pod.
        return None

    def _prefilter(self) -> Outcome | None:
        status = self._context.framework.prefilter(self.cycle)
        self._asked = self.cycle.data.get(QueueQuota.name)
        self.prefiltered.append((self.cycle, status))
        return self._rejected(status) if status is not None else None

    def _rejected(self, status: Status) -> Outcome:
        """Returns the outcome for a pod that is rejected on all nodes."""
        if status.pending:
            return Outcome(Remedy.GATE)
        context, cycle = self._context, self.cycle
        diagnosis = Diagnosis(context.state.size, status, error=status.error)
        if cycle.claims.leftover is not None:
            return Outcome(Remedy.DISCARD, diagnosis, self._rejected_wait(status), claims=(cycle.claims.leftover,))
        if status.plugin != QueueQuota.name:
            return Outcome(Remedy.WAIT, diagnosis, self._rejected_wait(status))
        result = self._reclaim_quota()
        wait = self._rejected_wait(status, result)
        if result.found is not None:
            return Outcome(Remedy.EVICT, diagnosis, wait, preemption=result.found, quota=result.quota)
        return Outcome(Remedy.WAIT, diagnosis, wait, unmet=self._unmet(lacks_quota=True))

    def _rejected_wait(self, status: Status, result: EvictionResult | None = None) -> Wait:
        """Returns what a pod waits for that is rejected on all nodes. `result` is the result of a search for evictions
        that would free quota."""
        nodes: frozenset[int] | None = NOWHERE
        objects, binding, at = status.waits_for, None, inf
        if result is not None and result.found is None:
            # If evictions would free the quota, the pod may wait for a change of any node.
            nodes = None if result.lacks_place else NOWHERE
            if result.lacks_quota is not None and result.lacks_quota not in objects:
                objects = (*objects, result.lacks_quota)
            binding, at = result.awaits_binding, result.retry_at
        is_wide = not status.waits_for and self._context.framework.is_cluster_wide(status.plugin)
        key = status.alike or ("rejected", self.cycle.pod.uid)
        return Wait(key, None, nodes, is_wide, objects, binding=binding, at=at, error=status.error)

    def _trial(self) -> nullcontext[None]:
        return _NO_TRIAL

    def _place(self) -> Outcome | Diagnosis:
        context, cycle, queued = self._context, self.cycle, self.queued[0]
        self._is_alone = bool(context.framework.own_filters(cycle)) or cycle.nodes is not None
        entries, entry = context.queue.entries, None
        if entries and not self._is_alone:
            self._key = self._wait_key()
            entry = entries.known(self._key, queued)
        known = entry.diagnosis if entry is not None else None
        answer = context.algorithm.schedule(cycle, known)
        # Places that are reserved for groups count as in use. Pods that end in time may use them all the same.
        if isinstance(answer, Diagnosis) and context.reservations.active:
            answer = self._beside_reservation(answer, known)
        if isinstance(answer, Diagnosis):
            self._is_futile = entry is not None and answer is known and entry.trying is None and entry.futile
            return answer
        # The number of consumers of a shared claim is checked last, since only a pod that fits needs it.
        if cycle.claims.claims and (full := context.devices.full_claim(cycle)) is not None:
            return self._rejected(full)
        return Outcome(Remedy.PLACE, placements=((queued, answer),))

    def _beside_reservation(self, diagnosis: Diagnosis, known: Diagnosis | None) -> Placement | Diagnosis:
        """Tries again with reserved places. Pods that end in time may use them; for others the diagnosis names the
        reservation."""
        context, cycle = self._context, self.cycle
        passes = context.reservations.lets_pass((cycle.pod,), self.now)
        if diagnosis is known and not passes:
            return diagnosis
        with context.nominations.without_reservations():
            answer = context.algorithm.schedule(cycle)
        if isinstance(answer, Diagnosis):
            return diagnosis
        return answer if passes else Diagnosis(context.state.size, context.reservations.status())

    def _releasable(self) -> tuple[Object, ...]:
        claim = self._context.algorithm.to_deallocate(self.cycle)
        return (claim,) if claim is not None else ()

    def _is_undecided(self, diagnosis: Diagnosis | GroupDiagnosis) -> bool:
        return bool(self.cycle.undecided)

    def _searches(self) -> tuple[Node, ...]:
        return tuple(self.cycle.undecided.values())[:_MOST_SEARCHES]

    def _preempt(self) -> EvictionResult:
        if not self.cycle.pod.preempts or self._is_futile:
            return NO_EVICTION
        return self._context.preemptor.find(self.cycle)

    def _reclaim(self, diagnosis: Diagnosis | GroupDiagnosis) -> EvictionResult:
        # There is quota, but not on the nodes where the pod fits or could fit: other queues may have borrowed it there.
        if self._asked is None or (self._asked.is_uniform and not _short_on_nodes(self._asked, diagnosis)):
            return NO_EVICTION
        return self._reclaim_quota()

    def _reclaim_quota(self) -> EvictionResult:
        return self._context.reclaimer.for_pod(self._asked, self.cycle) if self._asked is not None else NO_EVICTION

    # What the pod waits for

    def _unmet(self, *, lacks_quota: bool = False) -> Unmet | None:
        asked = self._asked
        place_key = self.cycle.pod.requirements, self.cycle.claims.demand
        return Unmet(asked.policy, asked.ask, lacks_quota, place_key) if asked is not None else None

    def _wait_key(self) -> tuple[object, ...]:
        """Returns the key of the wait. Pods wait together if their answer depends only on their signature: they have no
        claims of their own, no terms about other pods, nothing that their queue system treats differently, and no pods
        that must not be evicted for them alone: pods of their own group, and pods that they evicted too often."""
        pod, asked = self.cycle.pod, self._asked
        queue = asked.ask.queue if asked is not None else ""
        members = self._context.state.groups.members(pod.group) if pod.group is not None else None
        group = pod.group if members is not None and members.placed else None
        own = asked.wait_key if asked is not None else None
        evicting = self._context.state.evictions.evicting(pod)
        demand = self.cycle.claims.demand
        return pod.requirements, demand, pod.priority, pod.preempts, queue, group, own, evicting

    def _quota(self, diagnosis: Diagnosis | GroupDiagnosis, *, is_evicting: bool) -> tuple[ObjectRef, ...]:
        """Returns quota that may help once it is freed: the queue lacks it for some nodes, or it may entitle the pod to
        evict others on any node."""
        asked = self._asked
        if asked is None:
            return ()
        names = asked.policy.queue(asked.ask.queue).entitled_by if not is_evicting else ()
        return (*_short_on_nodes(asked, diagnosis), *[ObjectRef(QUOTA, "", name) for name in names])

    def _wait(self, diagnosis: Diagnosis | GroupDiagnosis, evicting: EvictionResult = NO_EVICTION) -> Wait:
        context, cycle, reservations = self._context, self.cycle, self._context.reservations
        pod, nodes, is_futile = cycle.pod, cycle.nodes, self._is_futile
        passes = reservations.active and reservations.lets_pass((pod,), self.now)
        # Claims that only the pod uses can be deallocated if it fits on another node.
        if nodes is not None and any(context.devices.is_releasable(claim, pod) for claim in cycle.claims.allocated):
            nodes = None
        found = evicting.found is not None
        alone = (pod.uid,) if self._is_alone else ("backfill",) if passes else ()
        return Wait(
            (*(self._key or self._wait_key()), *alone),
            signature_of(cycle),
            nodes,
            # Hints count a reserved place as in use, although pods that end in time may use it.
            cluster_wide=passes or bool(context.framework.own_filters(cycle)),
            quota=self._quota(diagnosis, is_evicting=found),
            # Pods that wait together do not search for evictions again.
            binding=None if is_futile else evicting.awaits_binding and not found,
            futile=None if is_futile else not found,
            at=evicting.retry_at if not found else inf,
            error=diagnosis.error,
        )


def _short_on_nodes(asked: QueuedAsk, diagnosis: Diagnosis | GroupDiagnosis) -> tuple[ObjectRef, ...]:
    """Returns quota that the queue of the pod lacks for some nodes, and not for all."""
    if not isinstance(diagnosis, Diagnosis):
        return ()
    return tuple({asked.lacks(reason) for reason, _ in diagnosis.counts if reason.code in QUOTA_CODES})
