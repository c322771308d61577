"""QueueExplainer: why a queue does not admit pods. It reports quota, usage, loans and possible evictions.

Answers are values; `queue_texts` turns them into text. `room` and `loans` are what `dray queue` shows of every queue.
Only this module and the view of `dray queue` look into the quota trees; everything else asks the interface of queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import QUOTA_CODES, Code, Reason
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.queue_policy import Ask, Asset, QueuePolicy
from dray.scheduling.quota.queues import Queues
from dray.scheduling.quota.quota_tree import QuotaNode
from dray.scheduling.scheduler import Scheduler


class Room(NamedTuple):
    """Quota that a queue or cohort does not use."""

    free: float
    """Unused quota of its own that it can use now."""
    lent: float
    """Unused quota of its own that others have borrowed."""
    borrowable: float
    """Quota of others that it can use now."""


class Loan(NamedTuple):
    queue: str
    amount: float


class Evictions(Enum):
    """Says whether other pods may be evicted so that pods get quota."""

    POSSIBLE = auto()
    IN_PROGRESS = auto()
    """Pods of these queues are terminating."""
    BY_SHARE = auto()
    """Fair shares decide."""
    NEVER_RECLAIMS = auto()
    """The pods are within the quota, and `reclaimWithinCohort` is Never."""
    NO_LOWER_PRIORITY = auto()
    """The pods are within the quota, and no borrower has a lower priority."""
    NEVER_PREEMPTS = auto()
    """The queue has pods of lower priority, and `withinClusterQueue` is Never."""
    BORROWS = auto()
    """The pods exceed the quota, and no pods are evicted for pods that borrow."""


@dataclass(frozen=True, slots=True)
class QuotaShortage:
    """A queue with a cohort has too little quota of one resource; amounts are in the units of the scheduler."""

    resource: str
    wanted: int
    quota: int
    used: int
    left: int
    borrowing_limit: int | None
    """The borrowing limit; None if the queue may borrow all that others lend."""
    most: int
    """The amount that the queue could have if no other queue used anything."""
    lent: float
    """Unused quota of the queue that others have borrowed."""
    loans: tuple[Loan, ...]
    """Queues that use more than their own quota, the largest loan first."""
    evictions: Evictions


@dataclass(frozen=True, slots=True)
class ShareExcess:
    """The pods would bring their queue above its fair share, so no pods of other queues are evicted for them."""

    resource: str
    wanted: float
    held: float
    share: float
    others: tuple[Loan, ...]
    """Other queues that are above their quota, and by how much."""


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    queue: str
    """Empty if there is no queue of that name."""
    problem: Reason | None
    """Why the queue does not admit the pods that must start together."""
    shortage: QuotaShortage | None = None
    """Details of a problem with quota."""
    excess: ShareExcess | None = None
    """Why the queue cannot reclaim, if the pods lack a place."""


class QueueExplainer:
    def __init__(self, scheduler: Scheduler) -> None:
        self._state = scheduler.state
        self._queues = scheduler.state.queues

    def answer(self, pods: Sequence[Pod]) -> QueueAnswer | None:
        """Returns why the queue does not admit these pods, which start together; None if they are in no queue."""
        memberships = self._queues.memberships(pods[0])
        if not memberships:
            return None
        policy, (queue, priority) = memberships[0]
        namespace = self._state.affinity.namespaces.get(pods[0].key[0]) or {}
        problem = policy.problem(pods[0], namespace)
        if problem is not None or not queue:
            return QueueAnswer(queue, problem)
        ask = Ask(tuple(pods), queue, policy.charges.costs.wanted(queue, pods), priority)
        problem = policy.short(ask)
        if problem is None and self._queues.is_held_up(policy, ask):
            problem = Reason(Code.QUEUE_HELD_UP, (queue,))
        return QueueAnswer(queue, problem, self._shortage(policy, ask, problem), self._excess(policy, ask, problem))

    def _shortage(self, policy: QueuePolicy, ask: Ask, problem: Reason | None) -> QuotaShortage | None:
        kueue = self._queues.system(KueueQueues)
        known = kueue.cluster_queue(ask.queue)
        if policy is not kueue or known is None or problem is None or problem.code not in QUOTA_CODES:
            return None
        resource = problem.args[1]
        node = kueue.tree.node(ask.queue)
        assets = [Asset(flavor, resource) for flavor in kueue.flavors.of(known, resource, ask.pod)]
        asset = max(assets, key=node.available)
        return QuotaShortage(
            resource,
            ask.wanted[resource],
            node.quota(asset).nominal,
            node.used.get(asset, 0),
            max(0, node.available(asset)),
            node.quota(asset).borrowing,
            max(0, max(node.available(candidate, idle=True) for candidate in assets)),
            room(node, asset).lent,
            loans(self._queues, ask.queue, asset),
            self._evictions(known, ask, asset),
        )

    def _evictions(self, queue: ClusterQueue, ask: Ask, asset: Asset) -> Evictions:
        kueue, amount = self._queues.system(KueueQueues), ask.wanted[asset.resource]
        charges, related = kueue.charges, set(kueue.tree.related(queue.name))
        if any(ending in related for ending in charges.ending_queues()):
            return Evictions.IN_PROGRESS
        if kueue.is_fair(kueue.tree.root(queue.name)):
            return Evictions.BY_SHARE
        has_lower = charges.has_below(queue.name, ask.priority)
        if has_lower and queue.preempts != "Never":
            return Evictions.POSSIBLE
        borrowers = [loan.queue for loan in loans(self._queues, queue.name, asset)]
        lesser = any(charges.has_below(borrower, ask.priority) for borrower in borrowers)
        if not kueue.tree.is_borrowing(queue.name, asset, amount) or kueue.tree.is_owed(queue.name, asset, amount):
            if queue.reclaims == "Never":
                return Evictions.NEVER_RECLAIMS
            return Evictions.POSSIBLE if lesser or queue.reclaims == "Any" else Evictions.NO_LOWER_PRIORITY
        if lesser and queue.borrows != "Never":
            return Evictions.POSSIBLE
        return Evictions.NEVER_PREEMPTS if has_lower else Evictions.BORROWS

    def _excess(self, policy: QueuePolicy, ask: Ask, problem: Reason | None) -> ShareExcess | None:
        if not isinstance(policy, KaiQueues) or problem is not None:
            return None
        tree = policy.shares()
        node = tree.path(ask.queue)[0]
        for resource in RESOURCES:
            held, share, wanted = node.remaining(resource), node.fair.get(resource, 0.0), ask.wanted.get(resource, 0)
            if wanted and held + wanted > share:
                leaves = (leaf for leaf in tree.all() if not leaf.children and leaf is not node)
                over = (Loan(leaf.name, leaf.remaining(resource) - leaf.quota(resource)) for leaf in leaves)
                others = tuple(sorted((loan for loan in over if loan.amount > 0), key=_largest))
                return ShareExcess(resource, wanted, held, share, others)
        return None


def room(node: QuotaNode, asset: Asset) -> Room:
    """Returns how much unused quota a queue or cohort has, and how much it could borrow."""
    unused = max(0, node.total(asset) - node.used.get(asset, 0))
    available = max(0, node.available(asset))
    free = min(unused, available)
    return Room(free, unused - free, available - free)


def loans(queues: Queues, queue: str, asset: Asset) -> tuple[Loan, ...]:
    """Returns the other queues below the same topmost cohort that use more than their quota, the largest loan first."""
    tree = queues.system(KueueQueues).tree
    nodes = (tree.node(name) for name in tree.related(queue) if name != queue)
    found = (Loan(node.name, node.used.get(asset, 0) - node.total(asset)) for node in nodes)
    return tuple(sorted((loan for loan in found if loan.amount > 0), key=_largest))


def lenders(queues: Queues, queue: str, asset: Asset) -> tuple[Loan, ...]:
    """Returns the other queues below the same topmost cohort whose unused quota is lent, the largest amount first."""
    tree = queues.system(KueueQueues).tree
    nodes = (tree.node(name) for name in tree.related(queue) if name != queue)
    found = (Loan(node.name, room(node, asset).lent) for node in nodes)
    return tuple(sorted((loan for loan in found if loan.amount > 0), key=_largest))


def _largest(loan: Loan) -> tuple[float, str]:
    return -loan.amount, loan.queue
