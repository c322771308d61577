"""QueueQuota: a pod in a queue is placed only where the queue has quota left for it, and when its turn has come."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dray.api.objects import key_of
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Plugin, Skip
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy
from dray.scheduling.quota.quota_waiters import ANY_QUEUE, QUOTA, alike


@dataclass(frozen=True, slots=True)
class QueuedAsk:
    """What a pod asks for, and whom; left in the cycle."""

    policy: QueuePolicy
    ask: Ask


def held_up(queue: str) -> Status:
    """Others have to go first: who is next is woken when they have gone."""
    return Status(QueueQuota.name, (Reason(Code.QUEUE_HELD_UP, (queue,)),), waits_for=(ANY_QUEUE,))


class QueueQuota(Plugin):
    weight = 100_000
    """The order of flavors is that of their queue, whatever else speaks for a node."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        pod = cycle.pod
        policy = self._queues.policy_of(pod)
        if policy is None:
            return SKIP
        trying = self._queues.waiters.trying
        if not trying:
            self._queues.reclaim_waiters.remove(pod.uid)
        problem = self._problem(pod, policy)
        queue = policy.queue_of(pod)
        if problem is not None or queue is None:
            assert problem is not None
            if not trying:
                policy.let_pass(pod)
            return Status(self.name, (problem,), waits_for=(ANY_QUEUE, *_awaited(problem, pod, policy)))
        wanted = policy.charges.wanted(queue, (pod,), self._state.groups.company(pod))
        ask = Ask((pod,), queue, wanted, policy.priority(pod), cycle.now)
        if policy.is_held_up(ask):
            return replace(held_up(queue), alike=(Code.QUEUE_HELD_UP, queue, ask.priority, pod.priority))
        cycle.data[self.name] = QueuedAsk(policy, ask)
        alone, name = pod.group is None, f"{pod.key[0]}/{pod.labels.get(policy.label) or queue}"
        if (short := policy.short(ask)) is not None:
            root = policy.lacks(queue, short)
            if not alone or trying:
                return Status(self.name, (short,), waits_for=(ANY_QUEUE, ObjectRef(QUOTA, "", root)))
            key = alike(root, name, ask)
            self._queues.waiters.lack(pod.uid, key)
            return Status(self.name, (short,), waits_for=(ANY_QUEUE,), alike=key)
        if alone and not trying:
            for root in policy.roots(queue):
                self._queues.waiters.granted(pod.uid, alike(root, name, ask))
        # Where every node is as good as any other, and nobody comes along, that was all.
        return SKIP if alone and policy.is_uniform(queue) else None

    def _problem(self, pod: Pod, policy: QueuePolicy) -> Reason | None:
        others = self._queues.policies_of(pod)
        if len(others) > 1:
            return Reason(Code.QUEUE_CONTRADICTION, (", ".join(each.label for each in others),))
        return policy.problem(pod, self._state.affinity.namespaces.get(pod.key[0]) or {})

    def prescore(self, cycle: Cycle) -> Skip | None:
        known = cycle.data.get(self.name)
        return SKIP if known is None or known.policy.is_uniform(known.ask.queue) else None

    def score(self, cycle: Cycle, node: Node) -> int:
        known: QueuedAsk = cycle.data[self.name]
        return known.policy.rank(known.ask, node)

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        known: QueuedAsk = cycle.data[self.name]
        status = known.policy.short_on(known.ask, node)
        return replace(status, plugin=self.name) if status is not None else None


def _awaited(problem: Reason, pod: Pod, policy: QueuePolicy) -> list[ObjectRef]:
    """The objects beside queues that may remove the problem."""
    if problem.code is not Code.QUEUE_UNCOVERED_CLASS:
        return []
    claims = [ObjectRef(CLAIM, *key_of(claim)) for claim in policy.charges.claims_of(pod)]
    return [ObjectRef("DeviceClass", "", problem.args[1]), *claims]
