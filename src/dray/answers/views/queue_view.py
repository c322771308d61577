"""The queues of a cluster as one forest for `dray queue`: cohorts with their ClusterQueues, and KAI's queues.

All amounts are as the scheduler's core has them: cpu in thousandths, everything else in whole units. None stands for no
bound.
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
    """What it is entitled to; None where its front end does not divide amounts."""
    left: float | None
    """How much more its pods may have."""
    total: float | None
    """The quota; of a cohort, with what the queues and cohorts below it lend."""
    room: Room | None = None
    """The unused quota, own and borrowable apart; None if pods are not bound by quota."""
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
    """Whether all its pods are terminating."""


class Waiter(NamedTuple):
    pod: Pod
    group: GroupKey | None
    """What the pod is placed with."""


Waiting = dict[tuple[str, str], list[Waiter]]
"""By label of the front end and queue."""


@dataclass(slots=True)
class QueueView:
    kind: str
    name: str
    amounts: list[Amounts]
    children: list[QueueView] = field(default_factory=list)
    borrowed: int | None = None
    """Thousandths of the lendable quota that a queue or cohort of Kueue has borrowed, divided by its weight."""
    waiting: list[Waiter] = field(default_factory=list)
    """Its own, in the order in which they are tried."""
    running: list[Running] = field(default_factory=list)
    """Running units of the queue itself, the oldest first."""
    reclaims: str = ""
    """`reclaimWithinCohort` of a ClusterQueue."""

    def all(self) -> Iterator[QueueView]:
        yield self
        for each in self.children:
            yield from each.all()

    @property
    def number_waiting(self) -> int:
        return sum(len(each.waiting) for each in self.all())


def views(scheduler: Scheduler) -> list[QueueView]:
    """Returns the queues and cohorts that have nothing above them."""
    queues, waiting = scheduler.state.queues, _waiting(scheduler)
    found: dict[int, QuotaNode] = {}
    kueue, kai = queues.system(KueueQueues), queues.system(KaiQueues)
    for each in kueue.all():
        top = kueue.tree.node(each.name)
        while top.parent is not None:
            top = top.parent
        found[id(top)] = top
    cohorts = sorted((_of_kueue(queues, each, waiting) for each in found.values()), key=_by_kind)
    forest = [*cohorts, *(_of_kai(each, waiting, None) for each in kai.shares().roots)]
    for view in (view for top in forest for view in top.all() if view.kind != "Cohort"):
        policy: QueuePolicy = kueue if view.kind == "ClusterQueue" else kai
        view.running = _running(scheduler, policy, view.name)
    return forest


def _by_kind(view: QueueView) -> tuple[str, str]:
    return view.kind, view.name


def find(forest: list[QueueView], name: str) -> list[QueueView]:
    return [each for top in forest for each in top.all() if each.name == name]


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
    return sorted(found, key=lambda each: (each.since, each.pods[0].key))


def _uses(policy: QueuePolicy, pod: Pod) -> dict[str, int]:
    """Returns the amounts that the pod is charged; KAI counts what is not preemptible a second time."""
    counted = policy.charges.counted(pod).items()
    found: Counter[str] = Counter()
    for asset, amount in counted:
        if policy.label != kai_queue.QUEUE_LABEL or not asset.flavor:
            found[asset.resource] += amount
    return {resource: amount for resource, amount in found.items() if amount}


def _of_kueue(queues: Queues, node: QuotaNode, waiting: Waiting) -> QueueView:
    amounts = [_kueue_amounts(queues, node, asset) for asset in sorted({*node.quotas, *node.used})]
    children = sorted((_of_kueue(queues, each, waiting) for each in node.children), key=_by_kind)
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


def _of_kai(node: ShareNode, waiting: Waiting, above: dict[str, float] | None) -> QueueView:
    """`above` is what the queues above it leave."""
    amounts, left = [], {}
    for each in RESOURCES:
        here = node.limit(each) - node.taken(each)
        left[each] = max(0.0, min(here, (above or {}).get(each, inf)))
        quota, limit = _bound(node.quota(each)), _bound(node.limit(each))
        unused = min(left[each], max(0.0, node.quota(each) - node.taken(each)))
        space = Room(unused, 0.0, left[each] - unused) if left[each] < inf else None
        share = node.fair.get(each, 0.0)
        amounts.append(Amounts("", each, quota, limit, node.taken(each), share, _bound(left[each]), quota, space))
    children = [_of_kai(each, waiting, left) for each in node.children]
    return QueueView("Queue", node.name, amounts, children, None, waiting.get((kai_queue.QUEUE_LABEL, node.name), []))


def _bound(amount: float) -> float | None:
    return amount if amount < inf else None


def row(view: QueueView) -> Object:
    """For programs."""
    return {
        "kind": view.kind,
        "name": view.name,
        "resources": [_amounts_row(each) for each in view.amounts],
        "weightedShare": view.borrowed,
        "running": [_running_row(each) for each in view.running],
        "waiting": [_waiter(each) for each in view.waiting],
        "children": [row(each) for each in view.children],
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
        "borrowers": [each._asdict() for each in amounts.borrowers],
        "lenders": [each._asdict() for each in amounts.lenders],
    }


def _running_row(running: Running) -> Object:
    return {
        "group": running.group.name if running.group is not None else "",
        "pods": [{"namespace": pod.key[0], "name": pod.key[1]} for pod in running.pods],
        "uses": running.uses,
        "since": running.since,
        "evicted": running.evicted,
    }


def _waiter(waiter: Waiter) -> Object:
    namespace, name = waiter.pod.key
    return {"namespace": namespace, "name": name, "group": waiter.group.name if waiter.group is not None else ""}
