"""GroupQuota: quota for all pods of a group at once: what it lacks, and who would have to go so that it gets it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.eviction.group_preemption import places_of
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.eviction.reclaim import Reclaimer
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.model.actions import NominatedPlace
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Status
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota, held_up
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_policy import Ask
from dray.scheduling.quota.quota_waiters import ANY_QUEUE
from dray.scheduling.waiting.queued_pods import QueuedPod

Prepared = Callable[[], list[tuple[QueuedPod, Cycle]]]
"""The pods of a group that may fit on some node, as things are then."""


class GroupQuota:
    def __init__(self, state: State, reclaimer: Reclaimer, preemptor: Preemptor, placer: GroupPlacer) -> None:
        self._state = state
        self._reclaimer = reclaimer
        self._preemptor = preemptor
        self._placer = placer

    def lack(self, pods: Sequence[Pod], need: int, now: float) -> tuple[QueuedAsk | None, Status] | None:
        """Returns what the queue of all these pods has too little of for as many as must start together; None where
        there may be enough. Without what is asked where it is not their turn, so that nobody has to go for them."""
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
        """Returns what is asked for as many pods as must start together, and the least that would do; None for pods
        that are not in one queue."""
        queues = self._state.queues
        first = queues.member(pods[0]) if pods else None
        if first is None:
            return None
        policy, queue, priority = first
        namespace = self._state.affinity.namespaces.get(pods[0].key[0]) or {}
        for each in pods:
            found = [(other, member.queue) for other, member in queues.memberships(each)]
            if found != [(policy, queue)] or policy.problem(each, namespace):
                return None
        charges = policy.charges
        company = self._state.groups.number_to_admit(pods[0])
        few = pods[:1] if company > 1 else pods
        some, least = (tuple(few), None) if len(few) <= need else _cheapest(charges, queue, pods, need)
        wanted = charges.costs.wanted(queue, some, company)
        ask = Ask(some, queue, wanted, priority, now)
        return QueuedAsk(policy, ask), ask if least is None else replace(ask, wanted=least)

    def reclaim_for(
        self, pods: Sequence[Pod], group: Group, need: int, prepared: Prepared, now: float
    ) -> EvictionResult:
        """Does the same as `reclaim`, for pods whose queue has quota that is not for all nodes."""
        asks = self.asks(pods, need, now)
        if asks is None or asks[0].is_uniform:
            return NO_EVICTION
        return self.reclaim(asks[0], group, need, prepared)

    def reclaim(self, asked: QueuedAsk, group: Group, need: int, prepared: Prepared) -> EvictionResult:
        """Returns which pods to evict for quota that the group lacks. Nothing is placed afterwards."""
        return self._reclaimer.find(asked, partial(self._places, group, need, prepared))

    def _places(self, group: Group, need: int, prepared: Prepared, removed: Sequence[Pod]) -> dict[str, NominatedPlace]:
        leaving = [each for each in removed if self._state.node_of(each) is not None]
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


def _cheapest(
    charges: QueueCharges, queue: str, pods: Sequence[Pod], need: int
) -> tuple[tuple[Pod, ...], dict[str, int]]:
    """Returns as many of the pods as have to start that want least, and the least that so many want of each
    resource."""
    each_wants = [charges.costs.wanted(queue, (each,)) for each in pods]
    order = sorted(range(len(pods)), key=lambda number: sum(each_wants[number].values()))
    names = {name for each in each_wants for name in each}
    least = {name: sum(sorted(each.get(name, 0) for each in each_wants)[:need]) for name in names}
    together, alone = charges.costs.wanted(queue, pods), Counter[str]()
    for each in each_wants:
        alone.update(each)
    # What they share is wanted once, whoever brings it along.
    return tuple(pods[number] for number in order[:need]), {
        name: amount for name, amount in least.items() if together.get(name, 0) == alone[name]
    }
