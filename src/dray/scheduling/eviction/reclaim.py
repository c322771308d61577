"""Reclaimer: the pods to evict so that other pods get quota of their queue, as the queue system decides.

Groups are evicted as a whole. Quota of pods that are ending already counts as free. No pod is evicted for pods that
would fit on no node even then. The quota and the places that are found are kept for the pods until they are tried
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from dray.api.objects import key_of
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.candidates import SparedPods
from dray.scheduling.eviction.group_preemption import places_of
from dray.scheduling.eviction.preemption import Preemptor, place_of
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.model.actions import NominatedPlace, Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.model.status import Status
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota, held_up
from dray.scheduling.quota.queue_charges import Charge, QueueCharges
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy, RunningUnit
from dray.scheduling.quota.reserved_quota import ReservedQuota
from dray.scheduling.waiting.queued_pods import QueuedPod
from dray.scheduling.waiting.quota_waits import ANY_QUEUE

# The maximum number of searches for places in one attempt.
_MOST_TRIES: Final = 24
# The maximum number of nodes without evicted pods that are tried.
_MOST_OTHERS: Final = 8

Places = Mapping[str, NominatedPlace]
"""Places of pods, by pod uid."""
Place = Callable[[Sequence[Pod]], Places]
"""Returns places for the pods that ask, as if the given pods were removed; empty if they do not fit."""


Prepared = Callable[[], list[tuple[QueuedPod, Cycle]]]
"""Returns the pods of a group that may fit on a node, in the state at the time of the call."""


class Reclaimer:
    def __init__(
        self,
        state: State,
        framework: Framework,
        algorithm: SchedulingAlgorithm,
        preemptor: Preemptor,
        placer: GroupPlacer,
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._preemptor = preemptor
        self._placer = placer

    def for_pod(self, asked: QueuedAsk, cycle: Cycle) -> EvictionResult:
        """Returns the place of the pod, and the pods to evict for it."""
        return self.find(asked, partial(self._places, cycle))

    def find(self, asked: QueuedAsk, place: Place) -> EvictionResult:
        """Returns the pods to evict, the places that `place` found without them, and the quota that becomes free."""
        policy, ask = asked.policy, asked.ask
        evictions, related = policy.evictions(ask), policy.queue(ask.queue).related
        if not ask.pod.preempts or not evictions.may_reclaim():
            return NO_EVICTION
        with self._state.what_if() as changes:
            trial = QuotaTrial(self._state, policy, ask, place, changes)
            trial.hide_ending(related)
            found = evictions.reclaim(trial)
            # The limit of a queue above may be reached too, which only the end of other pods changes.
            short = policy.short(ask) if found is None else None
        # Pods with reserved quota may be evicted once they are placed.
        awaits_binding = trial.awaits_binding or self._state.queues.reservations.is_reserved(policy, related)
        if found is None:
            lacks_quota = asked.lacks(short) if short is not None else None
            return EvictionResult(None, awaits_binding, trial.lacks_place, lacks_quota, trial.retry_at)
        units, assets = found
        victims = tuple(pod for unit in units for pod in unit.pods)
        quota = ReservedQuota(ask.pod, policy, ask.queue, assets)
        result = EvictionResult(Preemption(victims, trial.places, reclaims=True), awaits_binding, quota=quota)
        return self._preemptor.vain.left_out(result, ask.pod, ask.now)

    def _places(self, cycle: Cycle, removed: Iterable[Pod]) -> Places:
        """Returns the first place that is found."""
        leaving = [pod for pod in removed if self._state.node_of(pod) is not None]
        with self._preemptor.what_if({key_of(claim) for claim in cycle.claims.allocated}) as trial:
            trial.evict(leaving)
            if self._framework.prefilter(cycle) is not None:
                return {}
            for node in self._nodes(cycle, [trial.node_of(pod) for pod in leaving]):
                placement = self._algorithm.fits(cycle, node)
                if isinstance(placement, Placement):
                    return {cycle.pod.uid: place_of(placement)}
        return {}

    def _nodes(self, cycle: Cycle, left: Iterable[Node]) -> list[Node]:
        """Returns the nodes of evicted pods, the last first, and some nodes that are feasible without evictions."""
        found = {node.number: node for node in reversed(list(left))}
        others = self._algorithm.feasible_nodes.of(cycle).best()
        for _, node in zip(range(_MOST_OTHERS), others, strict=False):
            found.setdefault(node.number, node)
        others.close()
        return [node for number, node in found.items() if cycle.nodes is None or number in cycle.nodes]

    # Groups

    def lack(self, pods: Sequence[Pod], need: int, now: float) -> tuple[QueuedAsk | None, Status] | None:
        """Returns the quota that the queue lacks for as many pods as must start together; None if there may be enough.
        The ask is None if the pods have to wait for others of their queue, so that no pods are evicted for them."""
        asks = self.asks(pods, need, now)
        if asks is None:
            return None
        asked, least = asks
        if self._state.queues.is_held_up(asked.policy, replace(asked.ask, pods=tuple(pods))):
            return None, held_up(asked.ask.queue)
        short = asked.policy.short(least)
        if short is None:
            return None
        return asked, Status(QueueQuota.name, (short,), waits_for=(ANY_QUEUE, asked.lacks(short)))

    def asks(self, pods: Sequence[Pod], need: int, now: float) -> tuple[QueuedAsk, Ask] | None:
        """Returns the ask for as many pods as must start together, and the least amounts that may suffice; None if the
        pods are not in one queue."""
        queues = self._state.queues
        first = queues.member(pods[0]) if pods else None
        if first is None:
            return None
        policy, queue, priority = first
        namespace = self._state.affinity.namespaces.get(pods[0].key[0]) or {}
        for pod in pods:
            found = [(other, member.queue) for other, member in queues.memberships(pod)]
            if found != [(policy, queue)] or policy.problem(pod, namespace):
                return None
        charges = policy.charges
        number = self._state.groups.number_to_admit(pods[0])
        admitted = pods[:1] if number > 1 else pods
        starting, least = (tuple(admitted), None) if len(admitted) <= need else _cheapest(charges, queue, pods, need)
        wanted = charges.costs.wanted(queue, starting, number)
        ask = Ask(starting, queue, wanted, priority, now)
        return QueuedAsk(policy, ask), ask if least is None else replace(ask, wanted=least)

    def for_flavors(
        self, pods: Sequence[Pod], group: Group, need: int, prepared: Prepared, now: float
    ) -> EvictionResult:
        """Does the same as `for_group`, if the queue of the pods has different quota on different nodes."""
        asks = self.asks(pods, need, now)
        if asks is None or asks[0].is_uniform:
            return NO_EVICTION
        return self.for_group(asks[0], group, need, prepared)

    def for_group(self, asked: QueuedAsk, group: Group, need: int, prepared: Prepared) -> EvictionResult:
        """Returns which pods to evict for quota that the group lacks. Nothing is placed afterwards."""
        return self.find(asked, partial(self._group_places, group, need, prepared))

    def _group_places(
        self, group: Group, need: int, prepared: Prepared, removed: Sequence[Pod]
    ) -> dict[str, NominatedPlace]:
        leaving = [pod for pod in removed if self._state.node_of(pod) is not None]
        with self._preemptor.what_if(set()) as removal:
            removal.evict(leaving)
            found = prepared()
            if len(found) < need:
                return {}
            with self._placer.trial(found, found[0][1].work) as (trial, members):
                try:
                    answer = self._placer.place(group, members, need, trial, anew=True)
                    return places_of(members) if answer is None else {}
                finally:
                    trial.undo()


class QuotaTrial:
    """Tries out evictions of units of one queue system, whose quota is free then."""

    def __init__(self, state: State, policy: QueuePolicy, ask: Ask, place: Place, changes: Trial) -> None:
        self._state = state
        self._policy = policy
        self._ask = ask
        self._charges = policy.charges
        self._place = place
        self._changes = changes
        self._tries = 0
        self._kinds = dict.fromkeys(pod.requirements for pod in ask.pods)
        self._removed: dict[str, Pod] = {}
        self.places: Places = {}
        """The places that were found last. Units that are restored and removed again do not change them."""
        self.awaits_binding = False
        """Whether pods were left out only because they are being bound."""
        self.lacks_place = False
        """Whether the pods that ask fit on no node although there was quota."""
        self.retry_at = inf
        """The time when more units may be removed than now, if nothing else changes."""

    def note_retry(self, when: float) -> None:
        self.retry_at = min(self.retry_at, when)

    def hide_ending(self, queues: Iterable[str]) -> None:
        """Removes pods that are ending already."""
        related = set(queues) if self._charges.ending else ()
        for uid in self._charges.ending:
            charge = self._charges.of(uid)
            if charge is not None and charge.queue in related:
                self._set_aside(charge.pod)

    def units(self, queues: Iterable[str]) -> list[RunningUnit]:
        found: dict[str, RunningUnit] = {}
        for queue in queues:
            for charge in self._charges.within(queue):
                pod = charge.pod
                if pod.uid in self._removed:
                    continue
                if not pod.is_assigned:
                    self.awaits_binding = True
                    continue
                if pod.group is None:
                    found[pod.uid] = RunningUnit(
                        (pod,), queue, frozenset(charge.assets), charge.priority, start_of(pod), pod.created
                    )
                elif (unit := self._unit(charge)) is not None:
                    found[unit[0]] = unit[1]
        spared = SparedPods(self._state, self._ask.pod, self._ask.now)
        if not spared:
            return [*found.values()]
        self.note_retry(spared.retry_at)
        return [unit for unit in found.values() if not any(map(spared.has, unit.pods))]

    def _unit(self, charge: Charge) -> tuple[str, RunningUnit] | None:
        """Returns the unit of a pod with its name; None if some of its pods cannot be evicted."""
        groups = self._state.groups
        group = groups.unit(charge.pod)
        pods = tuple(groups.placed(group)) if group is not None else (charge.pod,)
        if any(pod.uid in self._removed or not pod.is_assigned for pod in pods):
            return None
        charges = [known for pod in pods if (known := self._charges.of(pod.uid)) is not None]
        unit = RunningUnit(
            pods,
            charge.queue,
            frozenset().union(*(known.assets for known in charges)),
            max(self._priority(pod) for pod in pods),
            min(map(start_of, pods)),
            min(pod.created for pod in pods),
        )
        return (group.uid if group is not None else charge.pod.uid), unit

    def _priority(self, pod: Pod) -> int:
        member = self._policy.member(pod)
        return member.priority if member is not None else pod.priority

    def is_placeable(self) -> bool:
        self._tries += 1
        places = self._place(list(self._removed.values())) if self._tries <= _MOST_TRIES else {}
        self.places = places or self.places
        self.lacks_place = self.lacks_place or not places
        return bool(places)

    def tries_again(self, units: Iterable[RunningUnit]) -> bool:
        found = self.lacks_place and len(set(map(self.is_near, units))) > 1
        self._tries = 0 if found else self._tries
        return found

    def is_near(self, unit: RunningUnit) -> bool:
        nodes = [node for pod in unit.pods if (node := self._state.node_of(pod)) is not None]
        return any(kind.select(node.name, node.labels) for node in nodes for kind in self._kinds)

    def remove(self, unit: RunningUnit) -> None:
        for pod in unit.pods:
            self._set_aside(pod)

    def restore(self, unit: RunningUnit) -> None:
        for pod in unit.pods:
            self._removed.pop(pod.uid, None)
            if self._changes.has(("charge", pod.uid)):
                self._changes.take_back(("charge", pod.uid))

    def _set_aside(self, pod: Pod) -> None:
        if pod.uid not in self._removed:
            self._removed[pod.uid] = pod
            self._charges.set_aside(pod, self._changes)


def _cheapest(
    charges: QueueCharges, queue: str, pods: Sequence[Pod], need: int
) -> tuple[tuple[Pod, ...], dict[str, int]]:
    """Returns the `need` pods that want least, and the least amount that so many pods want of each resource."""
    wanted = [charges.costs.wanted(queue, (pod,)) for pod in pods]
    order = sorted(range(len(pods)), key=lambda number: sum(wanted[number].values()))
    names = {name for amounts in wanted for name in amounts}
    least = {name: sum(sorted(amounts.get(name, 0) for amounts in wanted)[:need]) for name in names}
    together, alone = charges.costs.wanted(queue, pods), Counter[str]()
    for amounts in wanted:
        alone.update(amounts)
    # Resources of shared claims are left out, since these are charged once.
    return tuple(pods[number] for number in order[:need]), {
        name: amount for name, amount in least.items() if together.get(name, 0) == alone[name]
    }
