"""Attempts: tries a pod of the queue, with all pods that are placed together with it.

An attempt first decides (`Attempt.decide`), without changing anything. Then its outcome is applied (`_apply`): bindings
or evictions are started, or the pods wait.
"""

from __future__ import annotations

from dataclasses import replace

from dray.allocation import Work
from dray.api.objects import Key, key_of, status_of
from dray.scheduling.attempts.attempt import Attempt, Outcome, Remedy
from dray.scheduling.attempts.context import Context
from dray.scheduling.attempts.group_attempt import GroupAttempt, flaw_of, group_of, queued_pods
from dray.scheduling.attempts.pod_attempt import NOWHERE, PodAttempt
from dray.scheduling.attempts.pod_events import PodEvents
from dray.scheduling.groups.forest import Flawed
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Action, Bind, BindGroup, ClaimWrite, Refuse
from dray.scheduling.model.group import Group, pod_key, single
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.plugins import queue_quota
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue, Wait


class Attempts:
    def __init__(self, context: Context, pod_events: PodEvents) -> None:
        self._context = context
        self._pod_events = pod_events

    def attempt(self, queued: QueuedPod, now: float, work: Work) -> Action | None:
        """Tries the pod, with all pods of its group. `work` is the work budget for a single pod."""
        context, group, flaw = self._context, None, None
        if queued.pod.group is not None and (group := self._group_of(queued.pod)) is not None:
            flaw = flaw_of(context.state.groups, group)
        # Pods of an invalid group are tried, so that the problem is reported.
        if flaw is None and not self._is_ready(queued, group):
            self._hold_back(queued, group, now)
            return None
        attempt: Attempt
        if group is None:
            attempt = PodAttempt(context, queued, now, work)
        else:
            attempt = GroupAttempt(context, group, self._queued(group, queued), now, flaw)
        # Places and quota that are kept for the pods are free in their own attempt.
        with context.nominations.seen_by(*attempt.pods):
            outcome = attempt.decide()
        return self._apply(attempt, outcome)

    def _group_of(self, pod: Pod) -> Group | None:
        return group_of(self._context.state.groups, pod) if pod.group is not None else None

    def _is_ready(self, queued: QueuedPod, group: Group | None) -> bool:
        is_complete = group is None or self._context.state.groups.is_ready(group)
        return is_complete and self._context.framework.pre_enqueue(queued.pod) is None

    def _hold_back(self, queued: QueuedPod, group: Group | None, now: float) -> None:
        context = self._context
        if group is not None:
            context.reservations.forget(group.key)
        context.waits.quota.passed(queued.pod.uid)
        context.enqueue(queued, now)
        if queued.subqueue is SubQueue.ACTIVE:
            # The pod is tried with the last pod of its group that becomes ready.
            context.queue.gate(queued, now)
            context.state.queues.let_pass(queued.pod)

    def _queued(self, group: Group, first: QueuedPod) -> list[QueuedPod]:
        found = queued_pods(self._context, group, first)
        if isinstance(self._context.state.groups.root(group), Flawed):
            # Other groups of the tree report the problem by themselves. Otherwise they would report it without end.
            found = [queued for queued in found if queued.pod.group == group.key]
        return found if first in found else [first]

    def give_up(self, queued: QueuedPod, error: Exception, now: float) -> Refuse | None:
        """Ends an attempt that failed with an unexpected error. The pod is tried later; other pods are not affected."""
        context, pod = self._context, queued.pod
        context.state.report(f"scheduling pod {pod.key[0]}/{pod.key[1]}", error)
        context.nominations.give_up(pod.uid)
        context.reservations.forget(pod_key(pod.key))
        context.waits.quota.passed(pod.uid)
        status = Status.of("", Code.SCHEDULER_FAILED, faults.text(error), error=True)
        diagnosis = Diagnosis(context.state.size, status, error=True)
        context.queue.add_unschedulable(queued, diagnosis, Wait(("failed", pod.uid), nodes=NOWHERE, error=True), now)
        return Refuse((pod,), diagnosis) if context.reasons.report(queued, diagnosis) else None

    # Outcomes

    def _apply(self, attempt: Attempt, outcome: Outcome) -> Action | None:
        if self._context.state.queues.served:
            self._register_quota(attempt, outcome)
        if outcome.remedy is Remedy.PLACE:
            return self._bind(attempt, outcome)
        if outcome.remedy is Remedy.GATE:
            for queued in attempt.queued:
                self._context.queue.gate(queued, attempt.now)
            return None
        return self._refuse(attempt, outcome)

    def _register_quota(self, attempt: Attempt, outcome: Outcome) -> None:
        """Registers what the attempt found out about quota, before quota changes."""
        waits, queues = self._context.waits, self._context.state.queues
        for queued in attempt.queued:
            waits.reclaims.remove(queued.pod.uid)
            if attempt.group is not None:
                # The pods are woken together, not one after the other.
                waits.quota.passed(queued.pod.uid)
        for cycle, status in attempt.prefiltered:
            queue_quota.register(queues, waits.quota, cycle, status)
        if outcome.unmet is not None:
            unmet = outcome.unmet
            waits.reclaims.add(unmet.policy, unmet.ask, lacks=unmet.lacks_quota, place_key=unmet.place_key)

    # Placed pods

    def _bind(self, attempt: Attempt, outcome: Outcome) -> Bind | BindGroup:
        if self._context.reservations.waiting:
            self._context.reservations.forget(attempt.key)
        for queued, _ in outcome.placements:
            self._context.nominations.drop(queued.pod.uid)
            if queued.pod.joins:
                self._context.state.queues.reservations.remove(queued.pod.uid)
        if attempt.group is None:
            [(queued, placement)] = outcome.placements
            self._context.algorithm.assume(placement)
            return self._pod_events.start_binding(queued, placement)
        self._leave_out(attempt, outcome)
        binds, seen = [], set[tuple[Key, str]]()
        for queued, placement in outcome.placements:
            bind = self._pod_events.start_binding(queued, placement)
            # A claim is reserved once for the group, not for each pod.
            binds.append(replace(bind, writes=tuple(write for write in bind.writes if _is_new(write, seen))))
        return BindGroup(attempt.group, tuple(binds))

    def _leave_out(self, attempt: Attempt, outcome: Outcome) -> None:
        """Retries the pods of the group that were not placed with its minimum. No places are kept for them."""
        context = self._context
        placed = {queued.pod.uid for queued, _ in outcome.placements}
        is_elastic = attempt.group is not None and context.state.groups.is_elastic(attempt.group)
        for queued, (_, status) in zip(attempt.queued, attempt.prefiltered, strict=True):
            # The pod that was popped from the queue must be added again, even if it is rejected.
            if queued.pod.uid in placed or (status is not None and queued.subqueue is not SubQueue.ACTIVE):
                continue
            context.nominations.give_up(queued.pod.uid)
            if status is not None or not is_elastic:
                context.queue.retry(queued, attempt.now)
            elif queued.subqueue is not SubQueue.BACKOFF:
                # Pods beyond the minimum are tried after the minimum of other groups.
                context.queue.try_again(queued, attempt.now)

    # Refused pods

    def _refuse(self, attempt: Attempt, outcome: Outcome) -> Refuse | None:
        context, now = self._context, attempt.now
        for queued, status in outcome.rejected:
            context.waits.objects.add(queued.pod.uid, status.waits_for)
        if attempt.group is not None and attempt.group.timeout is not None:
            uids = (queued.pod.uid for queued in attempt.queued)
            context.queue.postpone(attempt.group.key, uids, now, attempt.group.timeout)
        is_nominated = self._keep_places(attempt, outcome)
        self._search_on(attempt, outcome)
        diagnosis, wait = self._reserve_place(attempt, outcome)
        for queued in attempt.queued:
            context.waits.objects.add(queued.pod.uid, wait.objects)
            if queued.subqueue is SubQueue.UNSCHEDULABLE and queued.entry is not None:
                queued.entry.await_binding(binding=bool(wait.binding))
            else:
                of_pod = outcome.diagnosis if isinstance(outcome.diagnosis, Diagnosis) else None
                context.queue.add_unschedulable(queued, of_pod, wait, now)
        return self._refusal(attempt, outcome, diagnosis, is_nominated=is_nominated)

    def _keep_places(self, attempt: Attempt, outcome: Outcome) -> bool:
        """Keeps places and quota for pods for which others are evicted, and drops those of the other pods. Returns
        whether the status of a pod does not name its nominated node yet."""
        preemption, nominations, queues = outcome.preemption, self._context.nominations, self._context.state.queues
        if outcome.remedy is Remedy.RELEASE:
            return False
        if preemption is None:
            # If others reserved quota of pods that are ending, the pods get their own quota once these have ended.
            if (nominations or queues.reservations) and not any(
                queues.reservations.awaits_others(pod.uid) for pod in attempt.pods
            ):
                for pod in attempt.pods:
                    nominations.give_up(pod.uid)
            return False
        found = preemption.places
        places = {pod: found[pod.uid] for pod in attempt.pods if pod.uid in found}
        for pod in places:
            queues.reservations.remove(pod.uid)
        if (quota := outcome.quota) is not None:
            # The quota is for all pods together. It is reserved for one of them that has a place.
            queues.reservations.remove(quota.pod.uid)
            holder = quota.pod if quota.pod in places else next(iter(places), quota.pod)
            queues.reservations.reserve(replace(quota, pod=holder))
            queues.mark_evicted(preemption.victims)
        for pod in attempt.pods:
            if pod not in places:
                nominations.give_up(pod.uid)
        nominations.keep(places, reclaims=preemption.reclaims)
        if outcome.quota is None:
            nodes = self._context.state.nodes
            queues.make_room([(pod, nodes[place.node]) for pod, place in places.items()], preemption.victims)
        return any(status_of(pod.document).get("nominatedNodeName") != place.node for pod, place in places.items())

    def _search_on(self, attempt: Attempt, outcome: Outcome) -> None:
        devices = self._context.devices
        for node in outcome.searches:
            cycle = attempt.prefiltered[0][0]
            claims, _ = devices.claims_on(cycle, node)
            devices.searches.want(cycle.pod.uid, cycle.claims.demand, node, claims)

    def _reserve_place(self, attempt: Attempt, outcome: Outcome) -> tuple[Diagnosis | GroupDiagnosis, Wait]:
        """Reserves a place that will be free, if the outcome allows it. Returns the diagnosis and the wait, updated for
        that."""
        diagnosis, wait, reservations = outcome.diagnosis, outcome.wait, self._context.reservations
        assert diagnosis is not None
        assert wait is not None
        if outcome.may_reserve:
            self._seek_place(attempt)
        elif outcome.remedy is not Remedy.SEARCH and reservations.waiting:
            reservations.forget(attempt.key)
        if not reservations.waiting:
            return diagnosis, wait
        if reservations.awaits_binding(attempt.key):
            wait = wait._replace(binding=True)
        return replace(diagnosis, reservation=reservations.period(attempt.key)), wait

    def _seek_place(self, attempt: Attempt) -> None:
        """Searches for a place that will be free, for a group or for a pod that needs several devices."""
        context, first = self._context, attempt.queued[0]
        if attempt.group is None:
            [(cycle, _)] = attempt.prefiltered
            if not cycle.claims.demand.is_several(first.pod.requirements.requests):
                return
        group = attempt.group or single(first.pod.key, first.pod.uid, first.pod.document)
        if not context.reservations.refused(group, attempt.queued, attempt.now):
            return
        # A new attempt is needed, since the trial of the first one changed the cycles of pods that share claims.
        again = GroupAttempt(context, group, attempt.queued, attempt.now)
        with context.nominations.seen_by(*attempt.pods):
            result = again.search_future_place()
        if result is not None:
            context.reservations.keep(group, attempt.queued, result, attempt.now)

    def _refusal(
        self, attempt: Attempt, outcome: Outcome, diagnosis: Diagnosis | GroupDiagnosis, *, is_nominated: bool
    ) -> Refuse | None:
        """Returns the refusal to write: evictions, claims to deallocate, or a new reason; None if there is nothing
        new."""
        pods, preemption = attempt.pods, outcome.preemption
        if outcome.remedy is Remedy.DISCARD:
            return Refuse(pods, diagnosis, attempt.group, news=False, discard=outcome.claims)
        news = self._context.reasons.report_all(attempt.queued, diagnosis)
        evicts = preemption is not None and bool(preemption.victims)
        if not (news or is_nominated or evicts or outcome.claims):
            return None
        return Refuse(pods, diagnosis, attempt.group, news, outcome.claims, preemption=preemption)

    # Questions

    def waiting_with(self, first: QueuedPod) -> tuple[Group, list[QueuedPod]] | None:
        """Returns the group that the pod is placed with, and its pods that can be tried; None for a single pod."""
        group = self._group_of(first.pod)
        return (group, queued_pods(self._context, group, first)) if group is not None else None

    def diagnose(self, pod: Pod, now: float) -> GroupDiagnosis | None:
        """Returns why the group of a pod cannot be placed now; None if it can, or if the pod is placed by itself."""
        first = self._context.queue.get(pod.uid)
        found = self.waiting_with(first) if first is not None else None
        if found is None:
            return None
        flaw = flaw_of(self._context.state.groups, found[0])
        return GroupAttempt(self._context, *found, now, flaw).diagnose()


def _is_new(write: ClaimWrite, seen: set[tuple[Key, str]]) -> bool:
    key = key_of(write.claim), str(write.consumer["uid"])
    if key in seen:
        return False
    seen.add(key)
    return True
