"""The scheduler: events in, actions out. It does no I/O and reads no clock; the time comes with every call.

    scheduler.put_pod(document, now)            # what the watches say
    while (action := scheduler.next(now)):      # what should be done, assumed to succeed
        ...
    scheduler.bound(action, now)                # or failed(action, now): how it went

A decision is in force from the moment it is made: room and devices are taken before anything is written. If the write
fails, `failed` takes it back and the pod is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation import ATTEMPT, KUBERNETES, Policy, Work, commit
from dray.allocation.usage import claim_key
from dray.api.gates import ALL_GATES, FeatureGates
from dray.api.objects import Object
from dray.scheduling import faults, groups, pods, volumes
from dray.scheduling.actions import SCHEDULER_ERROR, UNSCHEDULABLE, Action, Bind, ClaimWrite, Refuse
from dray.scheduling.claim_book import Unresolved
from dray.scheduling.deciding import Decider, Placement, Refusal
from dray.scheduling.demand import Demand
from dray.scheduling.faults import Report
from dray.scheduling.flights import Flight, claim_writes
from dray.scheduling.interests import Interests, waiting_key
from dray.scheduling.model import Key, Node, Pod, key_of
from dray.scheduling.nominations import Nominations
from dray.scheduling.preemption import Preemptor
from dray.scheduling.queue import Group, Place, Queue, Waiting
from dray.scheduling.readiness import Binding, binding_of_all, problem_of_all
from dray.scheduling.searches import FurtherSearch, Outcome
from dray.scheduling.standings import Kind
from dray.scheduling.state import DONE, State
from dray.scheduling.waking import Waker
from dray.scheduling.wishes import Hindrance, Wishes, releasable, wishes

# Nodes on which the search goes on elsewhere, after one attempt.
_MOST_SEARCHES: Final = 16
# Work for finding out whom a change may help, beside that of the attempt.
_ROUSING: Final = ATTEMPT // 4
_NOWHERE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Options:
    name: str = "default-scheduler"
    """Pods that name another scheduler are not ours to place."""
    gates: FeatureGates = ALL_GATES
    policy: Policy = KUBERNETES
    """Which of a node's devices to take."""
    weigh_devices: int = 0
    """How much nodes are preferred that waste few devices (packing); if negative, those whose devices are free."""
    preempt_for_devices: bool = True
    binding_timeout: float = 600.0
    seed: int = 0


class Scheduler:
    def __init__(self, options: Options | None = None, report: Report = faults.ignore) -> None:
        """`report` is told of errors that nobody expected; they concern the object that caused them and no other."""
        self.options = options or Options()
        self.state = State(gates=self.options.gates, seed=self.options.seed, report=report)
        self.queue = Queue()
        self._decider = Decider(self.state, policy=self.options.policy, weigh_devices=self.options.weigh_devices)
        self._preemptor = Preemptor(
            self.state,
            self._decider,
            lambda uid: self.queue.get(uid) is not None,
            for_devices=self.options.preempt_for_devices,
        )
        self._nominations = Nominations(self.state)
        self._flights: dict[str, Flight] = {}
        self.interrupted = False
        self._interests = Interests()
        self._waker = Waker(self.state, self.queue, self._preemptor, self._nominations)

    # Events: nodes and devices

    def put_node(self, node: Object) -> None:
        self.state.put_node(node)

    def remove_node(self, node: Object) -> None:
        self.state.remove_node(node["metadata"]["name"])

    def put_slice(self, slice_: Object) -> None:
        self.state.put_slice(slice_)

    def remove_slice(self, slice_: Object) -> None:
        self.state.remove_slice(slice_)

    def put_class(self, device_class: Object) -> None:
        self.state.put_class(device_class)

    def remove_class(self, device_class: Object) -> None:
        self.state.remove_class(device_class["metadata"]["name"])

    def leave_out_extended(self) -> None:
        """Devices serve no extended resources from now on: the server has no place to say which."""
        self.state.leave_out_extended()

    def put_taint_rule(self, rule: Object) -> None:
        self.state.put_taint_rule(rule)

    def remove_taint_rule(self, rule: Object) -> None:
        self.state.remove_taint_rule(rule["metadata"]["name"])

    def put_namespace(self, namespace: Object) -> None:
        self.state.put_namespace(namespace["metadata"]["name"], namespace["metadata"].get("labels") or {})

    def remove_namespace(self, namespace: Object) -> None:
        self.state.put_namespace(namespace["metadata"]["name"], None)

    def put_budget(self, budget: Object) -> None:
        self._preemptor.put_budget(budget)

    def remove_budget(self, budget: Object) -> None:
        self._preemptor.remove_budget(budget)

    # Events: claims and groups

    def put_group(self, group: Object, now: float) -> None:
        self.state.groups.put(group)
        self._tell(waiting_key(groups.PLURAL, key_of(group)), now)

    def remove_group(self, group: Object, now: float) -> None:
        self.state.groups.remove(group)

    def put_volume_claim(self, claim: Object, now: float) -> None:
        self.state.volumes.put(claim)
        self._tell(waiting_key(volumes.PLURAL, key_of(claim)), now)

    def remove_volume_claim(self, claim: Object, now: float) -> None:
        self.state.volumes.remove(claim)

    def put_volume(self, volume: Object, now: float) -> None:
        self.state.volumes.put_volume(volume)
        self._tell(volumes.ANY_VOLUME, now)

    def remove_volume(self, volume: Object, now: float) -> None:
        self.state.volumes.remove_volume(volume)

    def put_storage_class(self, storage_class: Object, now: float) -> None:
        self.state.volumes.put_class(storage_class)
        self._tell(volumes.ANY_VOLUME, now)

    def remove_storage_class(self, storage_class: Object, now: float) -> None:
        self.state.volumes.remove_class(storage_class)

    def put_claim(self, claim: Object, now: float) -> None:
        if self.state.claims.put(claim):
            self._tell(claim_key(claim), now)

    def remove_claim(self, claim: Object, now: float) -> None:
        if self.state.claims.remove(claim):
            self._tell(claim_key(claim), now)

    def _tell(self, claim: Key, now: float) -> None:
        for uid in self._interests.pods(claim):
            waiting = self.queue.get(uid)
            if waiting is not None:
                self._admit(waiting, now)

    # Events: pods

    def put_pod(self, document: Object, now: float) -> None:
        metadata, spec = document["metadata"], document["spec"]
        uid, node = metadata["uid"], spec.get("nodeName") or ""
        if (document.get("status") or {}).get("phase") in DONE or (metadata.get("deletionTimestamp") and not node):
            self._forget_pod(uid, now)
        elif node:
            self._put_placed(document, node, now)
        elif (spec.get("schedulerName") or "default-scheduler") == self.options.name:
            self._put_waiting(document, now)

    def remove_pod(self, document: Object, now: float) -> None:
        self._forget_pod(document["metadata"]["uid"], now)

    def _put_placed(self, document: Object, node: str, now: float) -> None:
        uid = document["metadata"]["uid"]
        known = self.state.placed(uid)
        if known is None:
            flight = self._flights.get(uid)
            pod = flight.waiting.pod if flight is not None else pods.read(document, self.state.kinds)
            pod.document = document
            self._enter(pod, node, now)
            return
        before = self.state.node_of(known)
        assert before is not None
        fresh = pods.read(document, self.state.kinds, known)
        if before.name != node or fresh.needs is not known.needs or pods.outward(fresh) != pods.outward(known):
            self.state.displace(known, before.name)
            self._enter(fresh, node, now)
        else:
            known.document, known.priority = document, fresh.priority
            self._settled(uid, now)

    def _enter(self, pod: Pod, node: str, now: float) -> None:
        self.state.place(pod, node)
        self._settled(pod.uid, now)

    def _settled(self, uid: str, now: float) -> None:
        """The pod is where it is: nothing about it is to be decided any more."""
        self._waker.landed = True
        if uid not in self._flights:
            self._interests.lose(uid)
            self.queue.remove(uid, now)
        self._nominations.drop(uid)

    def _put_waiting(self, document: Object, now: float) -> None:
        uid = document["metadata"]["uid"]
        waiting = self.queue.get(uid)
        if waiting is None:
            placed = self.state.placed(uid)
            if placed is not None:
                # An old event of a pod that is bound by now, as far as we know.
                return
            waiting = self.queue.add(pods.read(document, self.state.kinds), now)
        else:
            pod = pods.read(document, self.state.kinds, waiting.pod)
            same = pod.needs is waiting.pod.needs and pod.priority == waiting.pod.priority
            if pod.labels != waiting.pod.labels and self.state.neighbours.matters(pod):
                # What others say of pods with such labels may be in its way no longer.
                same = False
            if uid in self._flights or (same and pods.claims_of(document) == pods.claims_of(waiting.pod.document)):
                waiting.pod.document = document
                if waiting.place is not Place.GATED:
                    return
            else:
                waiting.pod = pod
        self._admit(waiting, now)

    def _forget_pod(self, uid: str, now: float) -> None:
        # What is being written for it stays in force until it is known how that ended: its devices may be given away
        # already.
        self._interests.lose(uid)
        self.queue.remove(uid, now)
        self._nominations.drop(uid)
        placed = self.state.placed(uid)
        if placed is not None:
            node = self.state.node_of(placed)
            assert node is not None
            self.state.displace(placed, node.name)

    # Queueing

    def _admit(self, waiting: Waiting, now: float) -> None:
        """Into the queue, if nothing keeps the pod from being tried at all."""
        try:
            self._let_in(waiting, now)
        except Exception:
            # The attempt tells what is wrong with it.
            self.queue.activate(waiting, now)

    def _let_in(self, waiting: Waiting, now: float) -> None:
        document = waiting.pod.document
        # After an error it waits its time, whatever its own writes stirred up.
        if waiting.place in (Place.FLYING, Place.DELAYED):
            return
        if document["spec"].get("schedulingGates"):
            self._hold_back(waiting, now)
            return
        if (group := self.state.groups.missing(document)) is not None:
            self._interests.set(waiting.pod.uid, (group,))
            self._hold_back(waiting, now)
            return
        if document["spec"].get("resourceClaims"):
            try:
                claims = self.state.claims.resolve(document)
            except Unresolved as problem:
                self._interests.set(waiting.pod.uid, (problem.waits_for,) if problem.waits_for else ())
                self._hold_back(waiting, now)
                return
            self._interests.set(waiting.pod.uid, tuple(map(claim_key, claims)))
        self.queue.activate(waiting, now)

    def _hold_back(self, waiting: Waiting, now: float) -> None:
        """Until the pod or a claim of it changes; no place is kept for it meanwhile."""
        self.queue.gate(waiting, now)
        self._nominations.drop(waiting.pod.uid)

    # Decisions

    def next(self, now: float) -> Action | None:
        """What to do next; None if there is nothing to do before `due`, or before something happens.

        Also None after much work that led to nothing; then it is `interrupted` and there may be more to do.
        """
        self.interrupted = False
        spent = 0
        while True:
            self._decider.begin(Work(_ROUSING))
            self._waker.rouse(now)
            spent += self._decider.work.spent
            if spent > ATTEMPT // 2:
                self.interrupted = True
                return None
            waiting = self.queue.pop(now)
            if waiting is None:
                return None
            try:
                action = self._attempt(waiting, now)
            except Exception as error:
                action = self._give_up(waiting, error, now)
            if action is not None:
                return action
            spent += self._decider.work.spent

    # Searches that go on elsewhere

    def further(self) -> FurtherSearch | None:
        """The next search that an attempt gave up undecided, if somebody waits for it."""
        return self._decider.searches.next(self._is_waited_for)

    def waits_for(self, search: FurtherSearch) -> bool:
        return self._is_waited_for(search.pod, search.demand)

    def _is_waited_for(self, uid: str, demand: Demand) -> bool:
        return self.queue.get(uid) is not None or any(self._waiting_for(demand))

    def _waiting_for(self, demand: Demand) -> Iterator[Group]:
        return (group for group in self.queue.groups() if group.kind is not None and group.kind.demand is demand)

    def searched(self, search: FurtherSearch, outcome: Outcome, now: float) -> None:
        """A search is over. Those who wait for it are tried, if it found something or was the last."""
        searches = self._decider.searches
        searches.found(search, outcome)
        if outcome.results is None and searches.pending(search.demand):
            return
        for group in self._waiting_for(search.demand):
            # What was said of them no longer holds.
            group.message = ""
            first = group.first()
            if first is not None and group.trying is None:
                self._admit(first, now)

    def due(self) -> float | None:
        return self.queue.due()

    def _attempt(self, waiting: Waiting, now: float) -> Action | None:
        pod = waiting.pod
        self._decider.begin(Work(ATTEMPT))
        if self.state.groups.missing(pod.document) is not None:
            self._admit(waiting, now)
            return None
        try:
            wanted = wishes(self.state, pod, now, self.options.binding_timeout)
        except Unresolved:
            self._admit(waiting, now)
            return None
        except Hindrance as problem:
            return self._hinder(waiting, problem, now)
        if wanted.leftover is not None:
            key = claim_key(wanted.leftover)
            self._interests.set(pod.uid, (*self._interests.of(pod.uid), key))
            self._park(waiting, wanted, "cannot schedule extended resource claim", now, nodes=_NOWHERE, alone=True)
            return Refuse(pod, waiting.said, news=False, discard=wanted.leftover)
        with self._nominations.out_of_sight_of(pod):
            group = self.queue.known(_kind_key(pod, wanted)) if wanted.reach is None else None
            answer = self._decider.decide(pod, wanted, group.message if group is not None else "")
            if not isinstance(answer, Placement):
                return self._refuse(waiting, wanted, answer, now)
            if wanted.crowded:
                return self._hinder(waiting, Hindrance(wanted.crowded, fault=True), now)
            return self._assume(waiting, answer, now)

    def _give_up(self, waiting: Waiting, error: Exception, now: float) -> Refuse | None:
        """An attempt ended in an error that nobody expected: the others go on, and this one is tried later."""
        pod = waiting.pod
        self.state.report(f"placing pod {pod.key[0]}/{pod.key[1]}", error)
        self._nominations.drop(pod.uid)
        message = f"the scheduler failed on this pod and will try again: {faults.text(error)}"
        self.queue.park(waiting, ("fault", pod.uid), None, message, now, nodes=_NOWHERE, error=True)
        return self._said(waiting, message, SCHEDULER_ERROR)

    def _hinder(self, waiting: Waiting, problem: Hindrance, now: float) -> Action | None:
        if problem.passing:
            self.queue.gate(waiting, now)
            return None
        uid = waiting.pod.uid
        self._nominations.drop(uid)
        if news := [key for key in problem.waits_for if key not in self._interests.of(uid)]:
            self._interests.set(uid, (*self._interests.of(uid), *news))
        message = str(problem) if problem.fault else f"0/{self.state.size} nodes are available: {problem}."
        self.queue.park(waiting, ("hindrance", uid), None, message, now, nodes=_NOWHERE)
        return self._said(waiting, message, SCHEDULER_ERROR if problem.fault else UNSCHEDULABLE)

    def _assume(self, waiting: Waiting, placement: Placement, now: float) -> Bind:
        pod, node = waiting.pod, placement.node.name
        results: dict[Key, Object] = {}
        if placement.allocation is not None:
            results = dict(zip(placement.allocation.claims, placement.allocation.results, strict=True))
        writes = tuple(claim_writes(self.state.groups, pod, placement, results))
        promised = tuple(claim_key(write.claim) for write in writes)
        self._nominations.drop(pod.uid)
        pod.extra = placement.extra
        try:
            self.state.place(pod, node)
            if placement.allocation is not None:
                commit(self.state.inventory, placement.allocation)
        except Exception:
            self.state.displace(pod, node)
            raise
        for key, result in results.items():
            self.state.claims.assume(key, result)
        for key in promised:
            self.state.claims.promise(key, pod.uid)
        self._flights[pod.uid] = Flight(waiting, node, results, promised)
        self.queue.fly(waiting, now)
        mappings = placement.special.mappings if placement.special is not None else ()
        reach = placement.wishes.reach
        volumes_ = tuple(claim for claim, _ in reach.waiting) if reach is not None else ()
        return Bind(pod, node, writes, placement.wishes.claims, mappings, placement.charges, volumes_)

    def _refuse(self, waiting: Waiting, wanted: Wishes, refusal: Refusal, now: float) -> Action | None:
        pod, message = waiting.pod, refusal.message
        reason = SCHEDULER_ERROR if refusal.fault else UNSCHEDULABLE
        release = None if refusal.fault else self._decider.to_release(pod, wanted)
        preemption = None
        self._preemptor.unsettled = False
        if release is not None:
            message += " deallocation of ResourceClaim completed"
        elif refusal.undecided:
            # Nobody is removed for a pod that may fit as things are.
            self._want(pod, wanted, refusal.undecided)
        elif pod.preempts and not refusal.fault and not (refusal.familiar and self._futile(pod, wanted)):
            preemption = self._preemptor.find(pod, wanted)
        if preemption is not None:
            self._nominations.keep(pod, preemption)
        elif release is None:
            # Others must not keep off a place that it cannot have.
            self._nominations.drop(pod.uid)
        where, fault = refusal.nodes, refusal.fault
        # What only it uses can be given back wherever there is a place for it.
        bound_to = where is not None and not any(releasable(self.state, claim, pod) for claim in wanted.fixed)
        alone = where is not None or refusal.social or wanted.reach is not None
        nodes = where if bound_to else None
        self._park(waiting, wanted, message, now, nodes=nodes, alone=alone, social=refusal.social, error=fault)
        if waiting.group is not None and not refusal.familiar:
            waiting.group.futile = preemption is None
            waiting.group.unsettled = preemption is None and self._preemptor.unsettled
        if release is None and (preemption is None or not preemption.victims):
            return self._said(waiting, message, reason)
        news = waiting.said != message
        waiting.said = message
        return Refuse(pod, message, reason, news, release, preemption=preemption)

    def _want(self, pod: Pod, wanted: Wishes, nodes: Sequence[Node]) -> None:
        for node in nodes[:_MOST_SEARCHES]:
            claims, _ = self._decider.claims_on(pod, wanted, node)
            self._decider.searches.want(pod.uid, wanted.demand, node, claims)

    def _futile(self, pod: Pod, wanted: Wishes) -> bool:
        group = self.queue.known(_kind_key(pod, wanted))
        return group is not None and group.futile

    def _park(
        self,
        waiting: Waiting,
        wanted: Wishes,
        message: str,
        now: float,
        *,
        nodes: frozenset[int] | None,
        alone: bool,
        social: bool = False,
        error: bool = False,
    ) -> None:
        pod = waiting.pod
        # Alike are pods whose answer depends on nothing but what they need: no claims of their own, no neighbours.
        key = _kind_key(pod, wanted, pod.uid if alone else "")
        kind = Kind(pod.needs, wanted.demand)
        self.queue.park(waiting, key, kind, message, now, nodes=nodes, social=social, error=error)

    def _said(self, waiting: Waiting, message: str, reason: str = UNSCHEDULABLE) -> Refuse | None:
        """Nothing, if it was said before."""
        if waiting.said == message:
            return None
        waiting.said = message
        return Refuse(waiting.pod, message, reason)

    # Outcomes

    def written(self, action: Bind, write: ClaimWrite, claim: Object, now: float) -> None:
        """A claim was written; `claim` is what the server answered."""
        key = claim_key(claim)
        placeholder = claim_key(write.claim)
        if placeholder != key and write.allocation is not None:
            # First, as both hold the same shares.
            self.state.claims.forget(placeholder, write.allocation)
        self.state.claims.confirm(key, claim)
        self._tell(key, now)

    def bound(self, action: Bind, now: float) -> None:
        flight = self._flights.pop(action.pod.uid, None)
        if flight is None:
            return
        self._drop_assumptions(flight, now)
        self._interests.lose(action.pod.uid)
        self.queue.remove(action.pod.uid, now)

    def failed(self, action: Bind, now: float) -> None:
        """The pod was not bound, as far as is known. It is tried again after a while."""
        flight = self._flights.pop(action.pod.uid, None)
        if flight is None:
            return
        self._drop_assumptions(flight, now)
        for key in flight.promised:
            # Others may have been kept from a claim that it was to use.
            self._tell(key, now)
        # What is said of it now is about this failure.
        flight.waiting.said = ""
        placed = self.state.placed(action.pod.uid)
        if placed is not None and self.state.bound(placed):
            # Somebody bound it, or the answer that said so was lost.
            self._settled(action.pod.uid, now)
            return
        self.state.displace(flight.waiting.pod, flight.node)
        self.queue.land(flight.waiting, now)
        waiting = self.queue.get(action.pod.uid)
        if waiting is not None and waiting.pod.document["spec"].get("resourceClaims"):
            self._interests.set(action.pod.uid, tuple(map(claim_key, action.claims)))

    def unsaid(self, action: Refuse, now: float) -> None:
        """What was to be said or done about a pod that waits could not be: it is tried again after a while."""
        waiting = self.queue.get(action.pod.uid)
        if waiting is not None and waiting.place is Place.PARKED:
            waiting.said = ""
            self.queue.delay(waiting, now)

    def _drop_assumptions(self, flight: Flight, now: float) -> None:
        for key in flight.promised:
            self.state.claims.withdraw(key, flight.waiting.pod.uid)
        for key, allocation in flight.claims.items():
            if self.state.claims.forget(key, allocation):
                # Others may have waited to see where it gets its devices.
                self._tell(key, now)

    def binding_of(self, claims: tuple[Object, ...], now: float) -> Binding:
        """How far the devices of a pod's claims are, as they stand now."""
        return binding_of_all(self.state.claims, claims, now, self.options.binding_timeout)

    def binding_problem(self, claims: tuple[Object, ...], now: float) -> str:
        return problem_of_all(self.state.claims, claims, now, self.options.binding_timeout)


def _kind_key(pod: Pod, wanted: Wishes, alone: str = "") -> tuple[object, ...]:
    return pod.needs, wanted.demand, pod.priority, pod.preempts, alone
