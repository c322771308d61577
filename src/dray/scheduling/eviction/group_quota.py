"""GroupQuota: quota for all pods of a group together: which quota it lacks, and which pods to evict for it."""

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
"""Returns the pods of a group that may fit on a node, in the state at the time of the call."""


class GroupQuota:
    def __init__(self, state: State, reclaimer: Reclaimer, preemptor: Preemptor, placer: GroupPlacer) -> None:
        self._state = state
        self._reclaimer = reclaimer
        self._preemptor = preemptor
        self._placer = placer

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

    def reclaim_for(
        self, pods: Sequence[Pod], group: Group, need: int, prepared: Prepared, now: float
    ) -> EvictionResult:
        """Does the same as `reclaim`, if the queue of the pods has different quota on different nodes."""
        asks = self.asks(pods, need, now)
        if asks is None or asks[0].is_uniform:
            return NO_EVICTION
        return self.reclaim(asks[0], group, need, prepared)

    def reclaim(self, asked: QueuedAsk, group: Group, need: int, prepared: Prepared) -> EvictionResult:
        """Returns which pods to evict for quota that the group lacks. Nothing is placed afterwards."""
        return self._reclaimer.find(asked, partial(self._places, group, need, prepared))

    def _places(self, group: Group, need: int, prepared: Prepared, removed: Sequence[Pod]) -> dict[str, NominatedPlace]:
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
