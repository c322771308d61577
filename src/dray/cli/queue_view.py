"""The queues of a cluster as one forest for `dray queue`: cohorts with their ClusterQueues, and KAI's queues.

All amounts are as the scheduler's core has them: cpu in thousandths, everything else in whole units. None stands for no
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import NamedTuple

from dray.api.objects import Key, Object
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.shares import share_of
from dray.scheduling.quota.quota_tree import QuotaNode
from dray.scheduling.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of one resource."""

    flavor: str
    resource: str
    quota: float | None
    limit: float | None
    used: float
    share: float | None
    """What it is entitled to; None where its front end does not divide amounts."""
    left: float | None
    """How much more its pods may have."""


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
    """Of one of Kueue's: thousandths of what can be lent that it has borrowed, by its weight."""
    waiting: list[Waiter] = field(default_factory=list)
    """Its own, in the order in which they are tried."""

    def all(self) -> Iterator[QueueView]:
        yield self
        for each in self.children:
            yield from each.all()

    @property
    def number_waiting(self) -> int:
        return sum(len(each.waiting) for each in self.all())


def views(scheduler: Scheduler) -> list[QueueView]:
    """Those that have nothing above them."""
    queues, waiting = scheduler.state.queues, _waiting(scheduler)
    found: dict[int, QuotaNode] = {}
    kueue = queues.system(KueueQueues)
    for each in kueue.all():
        top = kueue.tree.node(each.name)
        while top.parent is not None:
            top = top.parent
        found[id(top)] = top
    cohorts = sorted((_of_kueue(each, waiting) for each in found.values()), key=lambda each: (each.kind, each.name))
    return [*cohorts, *(_of_kai(each, waiting, None) for each in queues.system(KaiQueues).shares().roots)]


def find(forest: list[QueueView], name: str) -> list[QueueView]:
    return [each for top in forest for each in top.all() if each.name == name]


def _waiting(scheduler: Scheduler) -> Waiting:
    found: dict[tuple[str, str], list[tuple[tuple[int, str, Key], Waiter]]] = {}
    for each in scheduler.queue.all():
        member = scheduler.state.queues.member(each.pod)
        if member is not None:
            order = (-member.priority, each.pod.created, each.pod.key)
            waiter = Waiter(each.pod, _root(scheduler, each.pod))
            found.setdefault((member.policy.label, member.queue), []).append((order, waiter))
    return {key: [waiter for _, waiter in sorted(each, key=itemgetter(0))] for key, each in found.items()}


def _root(scheduler: Scheduler, pod: Pod) -> GroupKey | None:
    groups = scheduler.state.groups
    group = groups.of(pod)
    root = groups.root(group) if group is not None else None
    return root.key if isinstance(root, Group) else pod.group


def _of_kueue(node: QuotaNode, waiting: Waiting) -> QueueView:
    amounts = []
    for asset in sorted({*node.quotas, *node.used}):
        quota = node.quota(asset)
        limit = quota.nominal + quota.borrowing if quota.borrowing is not None else None
        left = max(0, node.available(asset))
        used = node.used.get(asset, 0)
        amounts.append(Amounts(asset.flavor, asset.resource, quota.nominal, limit, used, None, left))
    children = sorted((_of_kueue(each, waiting) for each in node.children), key=lambda each: (each.kind, each.name))
    kind = "ClusterQueue" if node.is_queue else "Cohort"
    own = waiting.get((kueue.QUEUE_LABEL, node.name), []) if node.is_queue else []
    return QueueView(kind, node.name, amounts, children, share_of(node).shown, own)


def _of_kai(node: ShareNode, waiting: Waiting, above: dict[str, float] | None) -> QueueView:
    """`above` is what the queues above it leave."""
    amounts, left = [], {}
    for each in RESOURCES:
        here = node.limit(each) - node.taken(each)
        left[each] = max(0.0, min(here, (above or {}).get(each, inf)))
        quota, limit = _bound(node.quota(each)), _bound(node.limit(each))
        share = node.fair.get(each, 0.0)
        amounts.append(Amounts("", each, quota, limit, node.taken(each), share, _bound(left[each])))
    children = [_of_kai(each, waiting, left) for each in node.children]
    return QueueView("Queue", node.name, amounts, children, None, waiting.get((kai_queue.QUEUE_LABEL, node.name), []))


def _bound(amount: float) -> float | None:
    return amount if amount < inf else None


def row(view: QueueView) -> Object:
    """For programs."""
    return {
        "kind": view.kind,
        "name": view.name,
        "resources": [
            {
                "flavor": each.flavor,
                "resource": each.resource,
                "quota": each.quota,
                "limit": each.limit,
                "used": each.used,
                "fairShare": each.share,
                "left": each.left,
            }
            for each in view.amounts
        ],
        "weightedShare": view.borrowed,
        "waiting": [_waiter(each) for each in view.waiting],
        "children": [row(each) for each in view.children],
    }


def _waiter(waiter: Waiter) -> Object:
    namespace, name = waiter.pod.key
    return {"namespace": namespace, "name": name, "group": waiter.group.name if waiter.group is not None else ""}
