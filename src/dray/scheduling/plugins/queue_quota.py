"""QueueQuota: places a pod of a queue only on nodes that the queue has quota left for, and only when it is its turn.

The plugin itself changes no state. An attempt calls `register` to register what it found out about quota.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy, quota_status
from dray.scheduling.quota.queues import Queues
from dray.scheduling.waiting.quota_waits import ANY_QUEUE, QUOTA, Alike, QuotaWaits, alike


@dataclass(frozen=True, slots=True)
class QueuedAsk:
    """The quota that a pod asks for, and the policy of its queue; `prefilter` stores it in `cycle.data`."""

    policy: QueuePolicy
    ask: Ask
    wait_key: Hashable = None

    @property
    def is_uniform(self) -> bool:
        """Whether the pod uses the same quota of the queue on every node."""
        return self.policy.queue(self.ask.queue).is_uniform

    def lacks(self, reason: Reason) -> ObjectRef:
        """Returns the object that pods wait for if they are rejected for the reason."""
        return ObjectRef(QUOTA, "", self.policy.queue(self.ask.queue).limits[reason.args[0]])


def held_up(queue: str) -> Status:
    """Returns the status of a pod that has to wait for pods before it in its queue. Its turn wakes it."""
    return Status(QueueQuota.name, (Reason(Code.QUEUE_HELD_UP, (queue,)),), waits_for=(ANY_QUEUE,))


class QueueQuota(Plugin):
    weight = 100_000
    """The weight exceeds all other scores, so that flavors are used in the order of the queue."""
    skip_is_final = True

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        pod = cycle.pod
        memberships = self._queues.memberships(pod) if self._queues.served else ()
        if not memberships:
            return SKIP
        policy, (queue, priority) = memberships[0]
        problem = self._problem(pod, [policy for policy, _ in memberships])
        if problem is not None or not queue:
            assert problem is not None
            awaited = (ANY_QUEUE, *_awaited(problem, pod, policy))
            return Status(self.name, (problem,), waits_for=awaited, lets_pass=True)
        wanted = policy.charges.costs.wanted(queue, (pod,), self._state.groups.number_to_admit(pod))
        ask = Ask((pod,), queue, wanted, priority, cycle.now)
        if self._queues.is_held_up(policy, ask):
            return replace(held_up(queue), alike=(Code.QUEUE_HELD_UP, queue, ask.priority, pod.priority))
        cycle.data[self.name] = QueuedAsk(policy, ask, policy.evictions(ask).wait_key)
        alone = pod.group is None
        if (short := policy.short(ask)) is not None:
            root = policy.queue(queue).limits[short.args[0]]
            if not alone:
                return Status(self.name, (short,), waits_for=(ANY_QUEUE, ObjectRef(QUOTA, "", root)))
            return Status(self.name, (short,), waits_for=(ANY_QUEUE,), alike=_alike(cycle.data[self.name], root))
        # No filter of nodes is needed if the pod is in no group and all nodes use the same quota.
        return SKIP if alone and policy.queue(queue).is_uniform else None

    def _problem(self, pod: Pod, policies: Sequence[QueuePolicy]) -> Reason | None:
        if len(policies) > 1:
            return Reason(Code.QUEUE_CONTRADICTION, (", ".join(policy.label for policy in policies),))
        return policies[0].problem(pod, self._state.affinity.namespaces.get(pod.key[0]) or {})

    def prescore(self, cycle: Cycle) -> Skip | None:
        known = cycle.data.get(self.name)
        return SKIP if known is None or known.is_uniform else None

    def score(self, cycle: Cycle, node: Node) -> int:
        known: QueuedAsk = cycle.data[self.name]
        return known.policy.node_flavors.choice(known.ask, node).rank

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        known: QueuedAsk = cycle.data[self.name]
        reason = known.policy.short(known.ask, node)
        return quota_status(reason) if reason is not None else None


def register(queues: Queues, waits: QuotaWaits, cycle: Cycle, status: Status | None) -> None:
    """Registers what the prefilter found out about the quota of a pod: that the pod waits for quota, that it has
    enough, or that others need not wait for it. `status` is the answer of all plugins together."""
    asked, uid = cycle.data.get(QueueQuota.name), cycle.pod.uid
    if status is not None and status.plugin == QueueQuota.name:
        if status.lets_pass:
            queues.let_pass(cycle.pod)
        elif isinstance(status.alike, Alike):
            waits.lack(uid, status.alike)
            return
    elif isinstance(asked, QueuedAsk) and cycle.pod.group is None:
        policy, ask = asked.policy, asked.ask
        for root in policy.queue(ask.queue).limits.values():
            waits.granted(uid, _alike(asked, root))
    waits.passed(uid)


def _alike(asked: QueuedAsk, root: str) -> Alike:
    return alike(root, _line(asked.policy, asked.ask), asked.ask, asked.wait_key)


def _line(policy: QueuePolicy, ask: Ask) -> str:
    """Returns the queue name in the label of the pod, with the namespace of the pod."""
    return f"{ask.pod.key[0]}/{ask.pod.labels.get(policy.label) or ask.queue}"


def _awaited(problem: Reason, pod: Pod, policy: QueuePolicy) -> list[ObjectRef]:
    """Returns the objects, beside queues, whose change may solve the problem."""
    if problem.code is not Code.QUEUE_UNCOVERED_CLASS:
        return []
    claims = [ObjectRef(CLAIM, *key_of(claim)) for claim in policy.charges.costs.claims_of(pod)]
    return [ObjectRef("DeviceClass", "", problem.args[1]), *claims]
