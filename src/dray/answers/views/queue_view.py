"""QueueView: the queues of a cluster as trees for `dray queue`: cohorts with their ClusterQueues, and KAI's queues.

Amounts have the units of the scheduler: cpu in thousandths, everything else in whole units. None means no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from dray.answers.explaining.queue_explainer import Loan, Room, lenders, loans, room
from dray.api.objects import Object, is_deleting
from dray.planning.waiting import group_of, waiting_pods
from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.shares import share_of
from dray.scheduling.quota.queue_policy import Asset, QueuePolicy
from dray.scheduling.quota.queues import Queues
from dray.scheduling.quota.quota_tree import QuotaNode
from dray.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Amounts:
    """The quota and usage of a queue or cohort, of one resource in one flavor."""

    flavor: str
    resource: str
    quota: float | None
    limit: float | None
    used: float
    share: float | None
    """The fair share of the queue; None if its quota system does not divide amounts."""
    left: float | None
    """The amount that further pods of the queue may use."""
    total: float | None
    """The quota; of a cohort, with what the queues and cohorts below it lend."""
    room: Room | None = None
    """The unused quota, own and borrowable; None if there is no quota for the pods."""
    borrowers: tuple[Loan, ...] = ()
    """Other queues that use more than their quota, if some of this queue's quota is lent."""
    lenders: tuple[Loan, ...] = ()
    """Other queues whose quota is lent, if this queue uses more than its own."""


@dataclass(frozen=True, slots=True)
class Running:
    """A group, or a single pod, that is charged to a queue."""

    pods: tuple[Pod, ...]
    group: GroupKey | None
    uses: dict[str, int]
    """Amounts by resource; a claim that pods share counts once."""
    since: str
    """The time at which the first pod of the unit started."""
    evicted: bool
    """True if all pods of the unit are terminating."""


class Waiter(NamedTuple):
    """A pod that waits in a queue."""

    pod: Pod
    group: GroupKey | None
    """The group that is placed together with the pod; None if there is none."""


Waiting = dict[tuple[str, str], list[Waiter]]
"""The waiting pods by the queue label of a quota system and the name of the queue."""


@dataclass(slots=True)
class QueueView:
    """A queue or cohort, with its amounts and pods, and the queues below it."""

    kind: str
    name: str
    amounts: list[Amounts]
    children: list[QueueView] = field(default_factory=list)
    borrowed: int | None = None
    """Thousandths of the lendable quota that a queue or cohort of Kueue has borrowed, divided by its weight."""
    waiting: list[Waiter] = field(default_factory=list)
    """Waiting pods of the queue itself, in the order in which they are tried."""
    running: list[Running] = field(default_factory=list)
    """Running units of the queue itself, the oldest first."""
    reclaims: str = ""
    """`reclaimWithinCohort` of a ClusterQueue."""

    def all(self) -> Iterator[QueueView]:
        """Yields this queue and all queues below it."""
        yield self
        for child in self.children:
            yield from child.all()

    @property
    def number_waiting(self) -> int:
        return sum(len(view.waiting) for view in self.all())


def views(scheduler: Scheduler) -> list[QueueView]:
    """Returns the queues and cohorts that have nothing above them."""
    queues, waiting = scheduler.state.queues, _waiting(scheduler)
    found: dict[int, QuotaNode] = {}
    kueue, kai = queues.system(KueueQueues), queues.system(KaiQueues)
    for queue in kueue.all():
        top = kueue.tree.node(queue.name)
        while top.parent is not None:
            top = top.parent
        found[id(top)] = top
    cohorts = sorted((_kueue_view(queues, top, waiting) for top in found.values()), key=_by_kind)
    forest = [*cohorts, *(_kai_view(top, waiting, None) for top in kai.shares().roots)]
    for view in (view for top in forest for view in top.all() if view.kind != "Cohort"):
        policy: QueuePolicy = kueue if view.kind == "ClusterQueue" else kai
        view.running = _running(scheduler, policy, view.name)
    return forest


def _by_kind(view: QueueView) -> tuple[str, str]:
    return view.kind, view.name


def find(forest: list[QueueView], name: str) -> list[QueueView]:
    """Returns the queues and cohorts of this name."""
    return [view for top in forest for view in top.all() if view.name == name]


def _waiting(scheduler: Scheduler) -> Waiting:
    found = waiting_pods(scheduler)
    return {key: [Waiter(pod, group_of(scheduler, pod)) for pod in pods] for key, pods in found.items()}


def _running(scheduler: Scheduler, policy: QueuePolicy, queue: str) -> list[Running]:
    units: dict[object, list[Pod]] = {}
    for charge in policy.charges.within(queue):
        units.setdefault(group_of(scheduler, charge.pod) or charge.pod.uid, []).append(charge.pod)
    found = []
    for key, pods in units.items():
        uses: Counter[str] = Counter()
        for pod in pods:
            uses.update(_uses(policy, pod))
        evicted = all(is_deleting(pod.document) for pod in pods)
        group = key if isinstance(key, GroupKey) else None
        found.append(Running(tuple(pods), group, dict(uses), min(map(start_of, pods)), evicted))
    return sorted(found, key=lambda unit: (unit.since, unit.pods[0].key))


def _uses(policy: QueuePolicy, pod: Pod) -> dict[str, int]:
    """Returns the amounts that the pod is charged; KAI counts what is not preemptible a second time."""
    counted = policy.charges.counted(pod).items()
    found: Counter[str] = Counter()
    for asset, amount in counted:
        if policy.label != kai_queue.QUEUE_LABEL or not asset.flavor:
            found[asset.resource] += amount
    return {resource: amount for resource, amount in found.items() if amount}


def _kueue_view(queues: Queues, node: QuotaNode, waiting: Waiting) -> QueueView:
    amounts = [_kueue_amounts(queues, node, asset) for asset in sorted({*node.quotas, *node.used})]
    children = sorted((_kueue_view(queues, child, waiting) for child in node.children), key=_by_kind)
    known = queues.system(KueueQueues).cluster_queue(node.name) if node.is_queue else None
    if known is None:
        return QueueView("Cohort", node.name, amounts, children, share_of(node).shown)
    own = waiting.get((kueue.QUEUE_LABEL, node.name), [])
    return QueueView("ClusterQueue", node.name, amounts, children, share_of(node).shown, own, reclaims=known.reclaims)


def _kueue_amounts(queues: Queues, node: QuotaNode, asset: Asset) -> Amounts:
    quota, used, space = node.quota(asset), node.used.get(asset, 0), room(node, asset)
    limit = quota.nominal + quota.borrowing if quota.borrowing is not None else None
    borrows = node.is_queue and node.is_borrowing(asset)
    return Amounts(
        asset.flavor,
        asset.resource,
        quota.nominal,
        limit,
        used,
        None,
        max(0, node.available(asset)),
        node.total(asset),
        space,
        loans(queues, node.name, asset) if node.is_queue and space.lent else (),
        lenders(queues, node.name, asset) if borrows else (),
    )


def _kai_view(node: ShareNode, waiting: Waiting, above: dict[str, float] | None) -> QueueView:
    """Returns a queue of KAI; `above` are the amounts that the queues above it leave."""
    amounts, left = [], {}
    for resource in RESOURCES:
        here = node.limit(resource) - node.taken(resource)
        left[resource] = max(0.0, min(here, (above or {}).get(resource, inf)))
        quota, limit = _finite(node.quota(resource)), _finite(node.limit(resource))
        unused = min(left[resource], max(0.0, node.quota(resource) - node.taken(resource)))
        space = Room(unused, 0.0, left[resource] - unused) if left[resource] < inf else None
        share = node.fair.get(resource, 0.0)
        used, rest = node.taken(resource), _finite(left[resource])
        amounts.append(Amounts("", resource, quota, limit, used, share, rest, quota, space))
    children = [_kai_view(child, waiting, left) for child in node.children]
    return QueueView("Queue", node.name, amounts, children, None, waiting.get((kai_queue.QUEUE_LABEL, node.name), []))


def _finite(amount: float) -> float | None:
    """Returns None for an infinite amount."""
    return amount if amount < inf else None


def row(view: QueueView) -> Object:
    """Returns a queue for `-o json`."""
    return {
        "kind": view.kind,
        "name": view.name,
        "resources": [_amounts_row(amounts) for amounts in view.amounts],
        "weightedShare": view.borrowed,
        "running": [_running_row(unit) for unit in view.running],
        "waiting": [_waiter_row(waiter) for waiter in view.waiting],
        "children": [row(child) for child in view.children],
    }


def _amounts_row(amounts: Amounts) -> Object:
    space = amounts.room
    return {
        "flavor": amounts.flavor,
        "resource": amounts.resource,
        "quota": amounts.quota,
        "limit": amounts.limit,
        "used": amounts.used,
        "fairShare": amounts.share,
        "left": amounts.left,
        "total": amounts.total,
        "free": space.free if space is not None else None,
        "borrowable": space.borrowable if space is not None else None,
        "lent": space.lent if space is not None else None,
        "borrowers": [loan._asdict() for loan in amounts.borrowers],
        "lenders": [loan._asdict() for loan in amounts.lenders],
    }


def _running_row(running: Running) -> Object:
    return {
        "group": running.group.name if running.group is not None else "",
        "pods": [{"namespace": pod.key[0], "name": pod.key[1]} for pod in running.pods],
        "uses": running.uses,
        "since": running.since,
        "evicted": running.evicted,
    }


def _waiter_row(waiter: Waiter) -> Object:
    namespace, name = waiter.pod.key
    return {"namespace": namespace, "name": name, "group": waiter.group.name if waiter.group is not None else ""}
