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

from collections.abc import Iterator
from typing import Final

from dray.allocation import ATTEMPT, Work
from dray.api.objects import Object, key_of
from dray.api.pods import is_terminal, node_of, phase_of
from dray.scheduling import faults, guarded_plugin, pods
from dray.scheduling.actions import Action, Bind, ClaimWrite, Refuse, RefuseGroup
from dray.scheduling.algorithm import SchedulingAlgorithm
from dray.scheduling.attempts import Attempts, InFlightBinding
from dray.scheduling.claim_assume_cache import CLAIM
from dray.scheduling.device_demand import DeviceDemand
from dray.scheduling.faults import Report
from dray.scheduling.framework import Framework
from dray.scheduling.front_ends import FRONT_ENDS, group_of, kueue
from dray.scheduling.group_attempts import GroupAttempts
from dray.scheduling.groups import reference
from dray.scheduling.guarded_plugin import NO_WATCHDOG, FaultReport, GuardedPlugin, Watchdog
from dray.scheduling.model import Pod
from dray.scheduling.nominations import Nominations
from dray.scheduling.object_stores import object_stores
from dray.scheduling.options import Options as Options
from dray.scheduling.plugins import default_plugins
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.preemption import Preemptor
from dray.scheduling.queue import Queue, QueuedPod, SignatureGroup, SubQueue
from dray.scheduling.queueing_hints import QueueingHints, Waiters
from dray.scheduling.readiness import Binding, binding_of_all, problem_of_all
from dray.scheduling.reasons import ObjectRef
from dray.scheduling.reclaim import Reclaimer
from dray.scheduling.searches import FurtherSearch, Outcome
from dray.scheduling.state import State
from dray.scheduling.status import Status
from dray.scheduling.volumes import ANY_VOLUME

# Work for finding out whom a change may help, beside that of the attempt.
_HINTS: Final = ATTEMPT // 4
# Some wait for any object of these kinds, rather than for a certain one.
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
        """`report` is told of errors that nobody expected; they concern the object that caused them and no other.

        `watchdog` interrupts plugins of users that do not answer, and `plugin_fault` is told of what they do wrong.
        """
        self.options = options = options or Options()
        self.state = state = State(gates=options.gates, seed=options.seed, report=report)
        self.queue = queue = Queue()
        self.user_plugins = [GuardedPlugin(each, state, watchdog, plugin_fault) for each in options.plugins]
        plugins = default_plugins(
            state,
            policy=options.policy,
            binding_timeout=options.binding_timeout,
            device_packing=options.weigh_devices,
            more=self.user_plugins,
        )
        self.devices = next(each for each in plugins if isinstance(each, DynamicResources))
        self.framework = Framework(state, plugins)
        self.algorithm = SchedulingAlgorithm(state, self.framework, self.devices, options.policy)
        self.preemptor = Preemptor(
            state, self.algorithm, lambda uid: queue.get(uid) is not None, for_devices=options.preempt_for_devices
        )
        self.nominations = Nominations(state)
        self.waiters = Waiters()
        self.reclaimer = Reclaimer(state)
        self.attempts = Attempts(self)
        self.group_attempts = GroupAttempts(self)
        self.in_flight: dict[str, InFlightBinding] = {}
        """Decisions that are being written, by pod uid."""
        self.interrupted = False
        self.hints = QueueingHints(state, queue, self.framework, self.preemptor, self.nominations)
        self._stores = object_stores(state, self.preemptor)

    # Events

    def put(self, kind: str, document: Object, now: float) -> None:
        """An object was created or changed."""
        if kind == "Pod":
            self._put_pod(document, now)
        elif kind in FRONT_ENDS:
            self._put_group(kind, document, now)
        elif kind in kueue.KINDS:
            self.state.queues.put(kind, document)
            self.state.reconsider()
        elif kind != CLAIM:
            self._stores[kind][0](document)
            self.notify(_ANY.get(kind) or ObjectRef(kind, *key_of(document)), now)
        elif self.state.claims.put(document):
            self.state.queues.claim_changed(document)
            self.notify(ObjectRef(CLAIM, *key_of(document)), now)

    def remove(self, kind: str, document: Object, now: float) -> None:
        """An object was deleted."""
        if kind == "Pod":
            self._remove_pod(document["metadata"]["uid"], now)
            if (group := group_of(document)) is not None:
                self.state.groups.gone(group, document["metadata"]["uid"])
        elif kind in kueue.KINDS:
            self.state.queues.remove(kind, document)
            self.state.reconsider()
        elif kind in FRONT_ENDS:
            self.queue.remove_group(self.state.groups.remove(kind, document))
        elif kind != CLAIM:
            self._stores[kind][1](document)
        elif self.state.claims.remove(document):
            self.notify(ObjectRef(CLAIM, *key_of(document)), now)

    def leave_out_extended(self) -> None:
        """Devices serve no extended resources from now on: the server has no place to say which."""
        self.state.leave_out_extended()

    def notify(self, changed: ObjectRef, now: float) -> None:
        """Those that wait for the object may be tried again."""
        for uid in self.waiters.pods(changed):
            queued = self.queue.get(uid)
            if queued is not None:
                self.enqueue(queued, now)

    def _put_group(self, kind: str, document: Object, now: float) -> None:
        groups = self.state.groups
        changed = groups.put(kind, document)
        if changed is not None:
            self.queue.put_group(changed.key, groups.members(changed.key).waiting)
            self.notify(reference(changed.key), now)

    def _notify(self, changed: ObjectRef | None, now: float) -> None:
        if changed is not None:
            self.notify(changed, now)

    # Events: pods

    def _put_pod(self, document: Object, now: float) -> None:
        metadata, node = document["metadata"], node_of(document)
        if is_terminal(document) or (metadata.get("deletionTimestamp") and not node):
            self._remove_pod(metadata["uid"], now)
            if phase_of(document) == "Succeeded" and group_of(document) is not None:
                self._notify(self.state.groups.succeeded(pods.read(document, self.state.signatures)), now)
        elif node:
            self._put_assigned(document, node, now)
        elif (document["spec"].get("schedulerName") or "default-scheduler") == self.options.name:
            self._put_pending(document, now)

    def _put_assigned(self, document: Object, node: str, now: float) -> None:
        uid = document["metadata"]["uid"]
        known = self.state.placed(uid)
        if known is None:
            binding = self.in_flight.get(uid)
            pod = binding.queued.pod if binding is not None else pods.read(document, self.state.signatures)
            pod.document = document
            self._assign(pod, node, now)
            return
        before = self.state.node_of(known)
        assert before is not None
        fresh = pods.read(document, self.state.signatures, known)
        changed = fresh.requirements is not known.requirements or pods.outward(fresh) != pods.outward(known)
        if before.name != node or changed:
            self.state.displace(known, before.name)
            self._assign(fresh, node, now)
        else:
            known.document, known.priority = document, fresh.priority
            self.settle(uid, now)

    def _assign(self, pod: Pod, node: str, now: float) -> None:
        self.state.place(pod, node)
        self.settle(pod.uid, now)

    def settle(self, uid: str, now: float) -> None:
        """The pod is on its node: nothing about it is to be decided any more."""
        self.hints.pod_bound = True
        if uid not in self.in_flight:
            self._forget(uid, now)
        self.nominations.drop(uid)

    def _forget(self, uid: str, now: float) -> None:
        """It does not wait any more."""
        self.waiters.remove(uid)
        queued = self.queue.remove(uid, now)
        if queued is not None:
            self.state.groups.forget(queued.pod)
            self.state.queues.forget(queued.pod)
            self.state.queues.gone(uid)

    def _put_pending(self, document: Object, now: float) -> None:
        uid = document["metadata"]["uid"]
        queued = self.queue.get(uid)
        if queued is None:
            if self.state.placed(uid) is not None:
                # An old event of a pod that is bound by now, as far as is known.
                return
            queued = self.queue.add(pods.read(document, self.state.signatures), now)
            self._notify(self.state.groups.wait(queued.pod), now)
        else:
            pod = pods.read(document, self.state.signatures, queued.pod)
            if uid in self.in_flight or pods.is_unchanged(queued.pod, pod, self.state.affinity):
                queued.pod.document = document
                if queued.subqueue is not SubQueue.GATED:
                    return
            else:
                self.state.groups.forget(queued.pod)
                queued.pod = pod
                self._notify(self.state.groups.wait(pod), now)
        self.enqueue(queued, now)

    def _remove_pod(self, uid: str, now: float) -> None:
        # What is being written for it stays in force until it is known how that ended: its devices may be given away
        # already.
        self._forget(uid, now)
        self.nominations.drop(uid)
        placed = self.state.placed(uid)
        if placed is not None:
            node = self.state.node_of(placed)
            assert node is not None
            self.state.displace(placed, node.name)

    def enqueue(self, queued: QueuedPod, now: float) -> None:
        """Into the active queue, if no plugin keeps the pod from being tried at all."""
        # After an error it waits its time, whatever its own writes stirred up.
        if queued.subqueue in (SubQueue.IN_FLIGHT, SubQueue.BACKOFF):
            return
        pod = queued.pod
        try:
            status = self.framework.pre_enqueue(pod)
            if status is not None:
                self.waiters.set(pod.uid, status.waits_for)
                self.queue.gate(queued, now)
                self.state.groups.ready(pod, is_ready=False)
                # No place is kept for it meanwhile.
                self.nominations.drop(pod.uid)
                return
            resolved = self.state.claims.resolve(pod.document)
            assert not isinstance(resolved, Status)
            self.waiters.set(pod.uid, tuple([ObjectRef(CLAIM, *key_of(claim)) for _, claim in resolved]))
        except Exception:
            # The attempt tells what is wrong with it.
            pass
        self.state.groups.ready(pod, is_ready=True)
        self.state.queues.wait(pod, queued.arrival)
        self.queue.activate(queued, now)

    # Decisions

    def next(self, now: float) -> Action | None:
        """What to do next; None if there is nothing to do before `due`, or before something happens.

        Also None after much work that led to nothing; then it is `interrupted` and there may be more to do.
        """
        self.interrupted = False
        spent = 0
        while True:
            self._wake_queues(now)
            work = self.state.inventory.selectors.work = Work(_HINTS)
            self.hints.move(now, work)
            spent += work.spent
            if spent > ATTEMPT // 2:
                self.interrupted = True
                return None
            queued = self.queue.pop(now)
            if queued is None:
                return None
            work = Work(ATTEMPT)
            try:
                action = self._attempt(queued, now, work)
            except Exception as error:
                action = self.attempts.give_up(queued, error, now)
            if action is not None:
                return action
            spent += work.spent

    def _wake_queues(self, now: float) -> None:
        """Pods that wait for quota are tried where there is more of it."""
        queues = self.state.queues
        if queues.waiters.woken or queues.freed:
            woken, freed = queues.waiters.woken, queues.freed
            queues.waiters.woken, queues.freed = [], set()
            for uid in (*woken, *(uid for each in freed for uid in self.waiters.pods(each))):
                if (queued := self.queue.get(uid)) is not None:
                    self.enqueue(queued, now)

    def _attempt(self, queued: QueuedPod, now: float, work: Work) -> Action | None:
        group = self.group_attempts.group_of(queued.pod) if queued.pod.group is not None else None
        if group is not None:
            return self.group_attempts.attempt(queued, group, now)
        return self.attempts.attempt(queued, now, work)

    def due(self) -> float | None:
        return self.queue.due()

    # Searches that go on elsewhere

    def further(self) -> FurtherSearch | None:
        """The next search that an attempt gave up undecided, if somebody waits for it."""
        return self.devices.searches.next(self._is_waited_for)

    def waits_for(self, search: FurtherSearch) -> bool:
        return self._is_waited_for(search.pod, search.demand)

    def _is_waited_for(self, uid: str, demand: DeviceDemand) -> bool:
        return self.queue.get(uid) is not None or any(self._waiting_for(demand))

    def _waiting_for(self, demand: DeviceDemand) -> Iterator[SignatureGroup]:
        groups = self.queue.groups()
        return (each for each in groups if each.signature is not None and each.signature.demand is demand)

    def searched(self, search: FurtherSearch, outcome: Outcome, now: float) -> None:
        """A search is over. Those who wait for it are tried, if it found something or was the last."""
        searches = self.devices.searches
        searches.found(search, outcome)
        if outcome.results is None and searches.pending(search.demand):
            return
        for group in self._waiting_for(search.demand):
            # What was said of them no longer holds.
            group.diagnosis = None
            first = group.first()
            if first is not None and group.trying is None:
                self.enqueue(first, now)

    # Outcomes

    def written(self, action: Bind, write: ClaimWrite, claim: Object, now: float) -> None:
        """A claim was written; `claim` is what the server answered."""
        key, placeholder = key_of(claim), key_of(write.claim)
        if placeholder != key and write.allocation is not None:
            # First, as both hold the same shares.
            self.state.claims.forget(placeholder, write.allocation)
        self.state.claims.confirm(key, claim)
        self.notify(ObjectRef(CLAIM, *key), now)

    def bound(self, action: Bind, now: float) -> None:
        binding = self.in_flight.pop(action.pod.uid, None)
        if binding is None:
            return
        self._unreserve(binding, now)
        self._forget(action.pod.uid, now)

    def failed(self, action: Bind, now: float) -> None:
        """The pod was not bound, as far as is known. It is tried again after a while."""
        uid = action.pod.uid
        binding = self.in_flight.pop(uid, None)
        if binding is None:
            return
        self._unreserve(binding, now)
        for write in action.writes:
            # Others may have been kept from a claim that it was to use.
            self.notify(ObjectRef(CLAIM, *key_of(write.claim)), now)
        # What is said of it now is about this failure.
        binding.queued.reported = None
        placed = self.state.placed(uid)
        if placed is not None and self.state.bound(placed):
            # Somebody bound it, or the answer that said so was lost.
            self.settle(uid, now)
            return
        self.state.displace(binding.queued.pod, action.node)
        self.queue.retry(binding.queued, now)
        if self.queue.get(uid) is not None and action.claims:
            self.waiters.set(uid, tuple(ObjectRef(CLAIM, *key_of(claim)) for claim in action.claims))

    def unsaid(self, action: Refuse | RefuseGroup, now: float) -> None:
        """What was to be said or done about pods that wait could not be: they are tried again after a while."""
        victims = action.preemption.victims if action.preemption is not None else ()
        self.state.queues.leaving.difference_update(each.uid for each in victims)
        for pod in (action.pod,) if isinstance(action, Refuse) else action.pods:
            queued = self.queue.get(pod.uid)
            if queued is not None and queued.subqueue is SubQueue.UNSCHEDULABLE:
                queued.reported = None
                self.queue.back_off(queued, now)

    def _unreserve(self, binding: InFlightBinding, now: float) -> None:
        for each in self.attempts.unreserve(binding):
            # Others may have waited to see where it gets its devices.
            self.notify(each, now)

    def binding_of(self, claims: tuple[Object, ...], now: float) -> Binding:
        """How far the devices of a pod's claims are, as they stand now."""
        return binding_of_all(self.state.claims, claims, now, self.options.binding_timeout)

    def binding_problem(self, claims: tuple[Object, ...], now: float) -> str:
        return problem_of_all(self.state.claims, claims, now, self.options.binding_timeout)
