"""Scheduler: events in, actions out. It does no I/O and reads no clock; the time comes with every call.

    scheduler.put("Pod", document, now)         # what the watches say
    while (action := scheduler.next(now)):      # what should be written, assumed to succeed
        ...
    scheduler.bound(action, now)                # or failed(action, now): how it went

The stages of a pod: queue, prefilter, filter, score, reserve (`Attempts`), write and bind (the loop around it).
A decision is in force from the moment it is made: resources and devices are taken before anything is written. If the
write fails, `failed` takes it back and the pod is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.allocation import ATTEMPT, Work
from dray.api.objects import Object, key_of
from dray.scheduling.attempts import group_events
from dray.scheduling.attempts.attempts import Attempts
from dray.scheduling.attempts.context import Context
from dray.scheduling.attempts.group_events import GroupEvents
from dray.scheduling.attempts.pod_events import PodEvents
from dray.scheduling.cluster import node_classes
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.cluster.readiness import Binding, binding_of_all, problem_of_all
from dray.scheduling.cluster.volumes import ANY_VOLUME
from dray.scheduling.core import guarded_plugin, pods
from dray.scheduling.core.guarded_plugin import NO_WATCHDOG, FaultReport, Watchdog
from dray.scheduling.core.options import Options as Options
from dray.scheduling.core.searches import FurtherSearch, Outcome
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model import faults
from dray.scheduling.model.actions import Action, Bind, ClaimWrite, Refuse
from dray.scheduling.model.faults import Report
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Diagnosis
from dray.scheduling.waiting.queued_pods import SubQueue
from dray.scheduling.waiting.wait_index import ObjectChanged, PodsReady, ReasonsOutdated, SearchEnded

# Units of work that each attempt costs in addition to those it counts (a tenth of a millisecond).
_TRIED: Final = 100
# The work budget for finding the pods that a change may help, in addition to that of the attempt.
_HINTS: Final = ATTEMPT // 4
# Pods may wait for any object of these kinds.
_ANY: Final = {"PersistentVolume": ANY_VOLUME, "StorageClass": ANY_VOLUME}


class Scheduler:
    def __init__(
        self,
        options: Options | None = None,
        report: Report = faults.ignore,
        *,
        plugin_fault: FaultReport = guarded_plugin.ignore,
        watchdog: Watchdog = NO_WATCHDOG,
    ) -> None:
        """`report` is called with unexpected errors, each of which concerns only the object that caused it.

        `watchdog` interrupts plugins of users that do not answer, and `plugin_fault` is called with their faults.
        """
        self._context = context = Context(options or Options(), report, plugin_fault, watchdog)
        self.options = context.options
        self.state = context.state
        self.queue = context.queue
        self.user_plugins = context.user_plugins
        self.devices = context.devices
        self.framework = context.framework
        self.algorithm = context.algorithm
        self.placer = context.placer
        self.preemptor = context.preemptor
        self.nominations = context.nominations
        self.reservations = context.reservations
        self.waits = context.waits
        self.reasons = context.reasons
        self.in_flight = context.in_flight
        self._gate_reports = context.gate_reports
        self._stores = object_stores(self.state, self.preemptor)
        self._group_events = GroupEvents(context)
        self._pod_events = PodEvents(context)
        self.attempts = Attempts(context, self._pod_events)
        self.interrupted = False

    # Events

    def put(self, kind: str, document: Object, now: float) -> None:
        """Notes that an object was created or changed."""
        if kind == "Pod":
            self._pod_events.put(document, now)
        elif kind in group_events.KINDS:
            self._group_events.put(kind, document, now)
        elif kind != CLAIM:
            if kind in self.state.queues.kinds:
                self._queues_changed(lambda: self.state.queues.put(kind, document), now)
            if kind in self._stores or kind not in self.state.queues.kinds:
                self._stores[kind][0](document)
            self.notify(_ANY.get(kind) or ObjectRef(kind, *key_of(document)), now)
        else:
            self._put_claim(document, now)

    def _put_claim(self, claim: Object, now: float) -> None:
        key, held = key_of(claim), self.state.inventory.usage.claims
        before = key in held
        if self.state.claims.put(claim):
            self.state.queues.claim_changed(claim)
            self.notify(ObjectRef(CLAIM, *key), now)
            if before and key not in held:
                self.reasons.released(key, now)

    def remove(self, kind: str, document: Object, now: float) -> None:
        """Notes that an object was deleted."""
        if kind == "Pod":
            self._pod_events.remove(document, now)
        elif kind in group_events.KINDS:
            self._group_events.remove(kind, document, now)
        elif kind != CLAIM:
            if kind in self.state.queues.kinds:
                self._queues_changed(lambda: self.state.queues.remove(kind, document), now)
            if kind in self._stores or kind not in self.state.queues.kinds:
                self._stores[kind][1](document)
        elif self.state.claims.remove(document):
            self.notify(ObjectRef(CLAIM, *key_of(document)), now)
            self.reasons.released(key_of(document), now)

    def _queues_changed(self, change: Callable[[], None], now: float) -> None:
        before = self.state.queues.tolerant
        change()
        if self.state.queues.tolerant != before:
            # Signatures of pods depend on their queues from now on, or no longer.
            for queued in self.queue.all():
                queued.pod.require(pods.read(queued.pod.document, self.state.signatures).requirements)
        self._group_events.queues_changed(now)
        self.state.reconsider()

    def leave_out_extended(self) -> None:
        """Stops serving extended resources by devices, since the server does not have the fields for that."""
        self.state.leave_out_extended()

    def notify(self, changed: ObjectRef, now: float) -> None:
        """Wakes the pods that wait for the object."""
        self.waits.wake(ObjectChanged(changed), now)

    # Decisions

    def next(self, now: float) -> Action | None:
        """Returns the next action; None if there is nothing to do before `due`, or before the next event.

        It also returns None after much work without a result. Then `interrupted` is set and there may be more to do.
        """
        self.interrupted = False
        if self.reservations.waiting:
            self.reservations.expire(now)
            if uid := self.reservations.due_pod(now):
                self.waits.wake(PodsReady((uid,)), now)
        if self._gate_reports.gated and (report := self._gate_report(now)) is not None:
            return report
        if outdated := self.reasons.pop(now):
            self.waits.wake(ReasonsOutdated(outdated), now)
        spent = 0
        while True:
            work = Work(_HINTS)
            self.state.inventory.selectors.charge(work)
            try:
                self.waits.wake_changed(now, work)
            except Exception as error:
                # The other pods are tried; pods that were not woken are retried after a time.
                self.state.report("waking pods that wait", error)
            spent += work.spent
            if spent > ATTEMPT // 2:
                self.interrupted = True
                return None
            if (queued := self.queue.pop(now)) is None:
                if self.waits.is_settled:
                    return None
                spent += _TRIED
                continue
            work = Work(ATTEMPT)
            try:
                action = self.attempts.attempt(queued, now, work)
            except Exception as error:
                action = self.attempts.give_up(queued, error, now)
            if queued.entry is not None:
                self.waits.attempted(queued.entry)
            if isinstance(action, Refuse):
                self._note_evictions(action, now)
            if action is not None:
                return action
            # Attempts that wake each other end when the budget is spent.
            spent += work.spent + _TRIED

    def _note_evictions(self, action: Refuse, now: float) -> None:
        if action.preemption is not None:
            self.state.evictions.note(action.pod, action.preemption.victims, now)
            self.state.groups.mark_evicted(action.preemption.victims)

    def _gate_report(self, now: float) -> Refuse | None:
        """Returns the report for a pod that has been gated for a while; None if none is due."""
        while (due := self._gate_reports.pop(now)) is not None:
            uid, status = due
            queued, diagnosis = self.queue.get(uid), Diagnosis(self.state.size, status)
            if queued is not None and queued.subqueue is SubQueue.GATED and self.reasons.report(queued, diagnosis):
                return Refuse((queued.pod,), diagnosis)
        return None

    def clock_set(self, seconds: float) -> None:
        """Shifts all times, after the clock was set forward by a number of seconds, or back if it is negative."""
        self.queue.clock_set(seconds)
        self.reservations.clock_set(seconds)
        self.state.evictions.clock_set(seconds)
        self._gate_reports.clock_set(seconds)
        self.reasons.clock_set(seconds)

    def due(self) -> float | None:
        times = (self.queue.due(), self.reservations.due(), self._gate_reports.due(), self.reasons.due())
        return min((time for time in times if time is not None), default=None)

    # Searches in the background

    def further(self) -> FurtherSearch | None:
        """Returns the next search to continue in the background, if a pod waits for it."""
        return self.devices.searches.next(self._is_waited_for)

    def waits_for(self, search: FurtherSearch) -> bool:
        return self._is_waited_for(search.pod, search.demand)

    def _is_waited_for(self, uid: str, demand: DeviceDemand) -> bool:
        return self.queue.get(uid) is not None or any(self.waits.waiting_for(demand))

    def searched(self, search: FurtherSearch, outcome: Outcome, now: float) -> None:
        """Takes the result of a search. Pods that wait for it are tried if it found devices or was the last search."""
        searches = self.devices.searches
        searches.found(search, outcome)
        if outcome.results is None and searches.pending(search.demand):
            return
        self.waits.wake(SearchEnded(search.demand), now)

    # Outcomes

    def written(self, action: Bind, write: ClaimWrite, claim: Object, now: float) -> None:
        """Notes that a claim was written; `claim` is the answer of the server."""
        self._pod_events.written(write, claim, now)

    def bound(self, action: Bind, now: float) -> None:
        self._pod_events.bound(action, now)

    def failed(self, action: Bind, now: float) -> None:
        """Notes that the pod was not bound, as far as is known. The pod is tried again after a backoff."""
        self._pod_events.failed(action, now)

    def refusal_failed(self, action: Refuse, now: float) -> None:
        """Notes that a refusal could not be written or carried out. Its pods are tried again after a backoff."""
        victims = action.preemption.victims if action.preemption is not None else ()
        if any((self.state.groups.unmark_evicted(victims), self.state.queues.unmark_evicted(victims))):
            self._retry_places(now)
        for pod in action.pods:
            queued = self.queue.get(pod.uid)
            if queued is None:
                continue
            if queued.subqueue is SubQueue.UNSCHEDULABLE:
                self.reasons.report(queued, None)
                self.queue.back_off(queued, now)
            elif queued.subqueue is SubQueue.GATED:
                self.reasons.report(queued, None)
                self._context.enqueue(queued, now)

    def _retry_places(self, now: float) -> None:
        """Retries pods with nominations or reserved quota, after evictions failed that they wait for."""
        kept = (uid for uid, _ in self.nominations.places())
        self.waits.wake(PodsReady((*kept, *self.state.queues.reservations.uids())), now)

    def binding_of(self, claims: tuple[Object, ...], now: float) -> Binding:
        """Returns whether the devices of a pod's claims are ready for binding."""
        return binding_of_all(self.state.claims, claims, now, self.options.binding_timeout)

    def binding_problem(self, claims: tuple[Object, ...], now: float) -> str:
        return problem_of_all(self.state.claims, claims, now, self.options.binding_timeout)


Take = Callable[[Object], None]


def object_stores(state: State, preemptor: Preemptor) -> dict[str, tuple[Take, Take]]:
    def name(document: Object) -> str:
        return str(document["metadata"]["name"])

    def reconsidering(change: Callable[[str, Object], None], kind: str) -> Take:
        def take(document: Object) -> None:
            change(kind, document)
            state.reconsider()

        return take

    volumes, budgets = state.volumes, preemptor.budgets
    return {
        "Node": (state.put_node, lambda each: state.remove_node(name(each))),
        "ResourceSlice": (state.put_slice, state.remove_slice),
        "DeviceClass": (state.put_class, lambda each: state.remove_class(name(each))),
        "DeviceTaintRule": (state.put_taint_rule, lambda each: state.remove_taint_rule(name(each))),
        "Namespace": (
            lambda each: state.put_namespace(name(each), each["metadata"].get("labels") or {}),
            lambda each: state.put_namespace(name(each), None),
        ),
        "PodDisruptionBudget": (budgets.put, budgets.remove),
        "PersistentVolumeClaim": (volumes.put, volumes.remove),
        "PersistentVolume": (volumes.put_volume, volumes.remove_volume),
        "StorageClass": (volumes.put_class, volumes.remove_class),
        **{
            kind: (reconsidering(state.node_classes.put, kind), reconsidering(state.node_classes.remove, kind))
            for kind in node_classes.KINDS
        },
    }
