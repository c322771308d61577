"""Attempts: tries a pod of the queue, with all pods that are placed together with it.

An attempt first decides (`Attempt.decide`), without changing anything; then its outcome is applied (`Effects.apply`).
"""

from __future__ import annotations

from dray.allocation import Work
from dray.scheduling.attempts.attempt import Attempt
from dray.scheduling.attempts.bindings import Bindings
from dray.scheduling.attempts.context import Context
from dray.scheduling.attempts.effects import Effects
from dray.scheduling.attempts.group_attempt import GroupAttempt, flaw_of, group_of, queued_pods
from dray.scheduling.attempts.pod_attempt import NOWHERE, PodAttempt
from dray.scheduling.groups.forest import Flawed
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Action, Refuse
from dray.scheduling.model.group import Group, pod_key
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue
from dray.scheduling.waiting.waits import Wait


class Attempts:
    def __init__(self, context: Context, bindings: Bindings) -> None:
        self._context = context
        self._effects = Effects(context, bindings)

    def attempt(self, queued: QueuedPod, now: float, work: Work) -> Action | None:
        """Tries the pod, with all pods of its group. `work` is the work budget for a single pod."""
        context, group, flaw = self._context, self._group_of(queued.pod), None
        if group is not None:
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
        pods = [member.pod for member in attempt.queued]
        # Places and quota that are kept for the pods are free in their own attempt.
        with context.nominations.seen_by(*pods):
            outcome = attempt.decide()
        return self._effects.apply(attempt, outcome)

    def _group_of(self, pod: Pod) -> Group | None:
        return group_of(self._context.state.groups, pod) if pod.group is not None else None

    def _is_ready(self, queued: QueuedPod, group: Group | None) -> bool:
        is_complete = group is None or self._context.state.groups.is_ready(group)
        return is_complete and self._context.framework.pre_enqueue(queued.pod) is None

    def _hold_back(self, queued: QueuedPod, group: Group | None, now: float) -> None:
        context = self._context
        if group is not None:
            context.reservations.forget(group.key)
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
        context.state.queues.waiters.passed(pod.uid)
        status = Status.of("", Code.SCHEDULER_FAILED, faults.text(error), error=True)
        diagnosis = Diagnosis(context.state.size, status, error=True)
        context.queue.add_unschedulable(queued, diagnosis, Wait(("failed", pod.uid), nodes=NOWHERE, error=True), now)
        return Refuse((pod,), diagnosis) if context.reasons.report(queued, diagnosis) else None

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
