"""ShareTree: the tree of KAI's queues, the amounts that their pods hold and want, and their fair shares.

The amounts that pods of a queue hold and want also count for all queues above it, up to the limit of each queue. Shares
are divided from the top, each resource by itself: the capacity of the cluster among the queues without a parent, then
the share of a queue among its children. Shares are computed on demand, after something changed that they depend on. A
queue that wants more than its share does not change them by wanting still more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from dray.scheduling.quota.fair_share import Claimant, divide, dominant_share
from dray.scheduling.quota.kai.queue import RESOURCES, KaiQueue

Amounts = Mapping[str, float]
_DEEPEST: Final = 64


@dataclass(eq=False, slots=True)
class ShareNode:
    queue: KaiQueue
    children: list[ShareNode] = field(default_factory=list)
    """The children of the queue, sorted by age (the oldest first), then by name."""
    held: dict[str, float] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)
    """The part of `held` that non-preemptible pods hold."""
    evicting: dict[str, float] = field(default_factory=dict)
    """The part of `held` that pods hold which are being evicted."""
    reserved: dict[str, float] = field(default_factory=dict)
    """The amounts that are reserved for pods that wait until evicted pods have ended."""
    waiting: dict[str, float] = field(default_factory=dict)
    """The amounts that waiting pods want, including pods with reserved amounts."""
    wanted: dict[str, float] = field(default_factory=dict)
    """The amounts that are held and wanted; those of each child count up to its limit."""
    fair: dict[str, float] = field(default_factory=dict)
    divided: dict[str, float] = field(default_factory=dict)
    """The request from which the shares were computed."""
    revision: int = 0
    """Incremented when an amount of the queue changes."""

    @property
    def name(self) -> str:
        return self.queue.name

    def taken(self, resource: str) -> float:
        """Returns the amount that is held or reserved."""
        return self.held.get(resource, 0.0) + self.reserved.get(resource, 0.0)

    def remaining(self, resource: str) -> float:
        """Returns the amount that is held or reserved, without pods that are being evicted."""
        return self.taken(resource) - self.evicting.get(resource, 0.0)

    def request(self, resource: str) -> float:
        """Returns the amount that is held or wanted, up to the limit."""
        return min(self.limit(resource), self.wanted.get(resource, 0.0))

    def changes_shares(self) -> bool:
        """Whether a changed request changes shares. It does not if the queue wanted and wants more than its share."""
        for resource in RESOURCES:
            before, after = self.divided.get(resource, 0.0), self.request(resource)
            if before != after and min(before, after) <= self.fair.get(resource, 0.0):
                return True
        return False

    def quota(self, resource: str) -> float:
        """Returns the quota; infinite if it is unlimited."""
        quota = self.queue.quotas[resource].quota
        return quota if quota >= 0 else inf

    def limit(self, resource: str) -> float:
        limit = self.queue.quotas[resource].limit
        return limit if limit >= 0 else inf

    def allocatable(self, resource: str) -> float:
        """Returns the amount that the queue may hold without losing it to other queues."""
        if self.queue.quotas[resource].quota < 0:
            return self.limit(resource)
        return min(self.limit(resource), max(self.quota(resource), self.fair.get(resource, 0.0)))

    def within_quota(self, more: Amounts) -> bool:
        """Whether the queue stays within its quota with additional amounts."""
        return all(self.remaining(name) + more.get(name, 0.0) <= self.quota(name) for name in RESOURCES)

    def within_share(self, more: Amounts) -> bool:
        """Whether the queue stays within its fair share with additional amounts."""
        return all(self.remaining(name) + more.get(name, 0.0) <= self.fair.get(name, 0.0) for name in RESOURCES)

    def share(self, more: Amounts, capacity: Amounts) -> float:
        """Returns the dominant share of the queue with additional amounts: the largest part of what it may have."""
        used = {name: self.remaining(name) + more.get(name, 0.0) for name in RESOURCES}
        return dominant_share(used, self.may_have(capacity))

    def may_have(self, capacity: Amounts) -> dict[str, float]:
        """Returns the allocatable amounts; the capacity of the cluster if they are unlimited."""
        found = {name: self.allocatable(name) for name in RESOURCES}
        return {name: amount if amount < inf else capacity.get(name, 0.0) for name, amount in found.items()}


class _Division(NamedTuple):
    total: float
    requests: list[float]
    shares: list[float]


class ShareTree:
    def __init__(self) -> None:
        self._nodes: dict[str, ShareNode] = {}
        self._paths: dict[str, tuple[ShareNode, ...]] | None = None
        self.capacity: Mapping[str, float] = {}
        self.usage: Mapping[str, Amounts] = {}
        """Past usage by queue."""
        self.k = 1.0
        self.roots: list[ShareNode] = []
        self._own: dict[str, dict[str, dict[str, float]]] = {}
        """The amounts of the pods of each queue, including queues that do not exist."""
        self._stale = True
        self._divisions: dict[tuple[str, str], _Division] = {}
        """The last division among the children of a queue, by the name of the queue and the resource."""
        self._changed: set[ShareNode] = set()
        """The nodes whose demand changed since the shares were computed."""
        self.revision = 0
        """Incremented when a share changes."""

    # Queues

    def __len__(self) -> int:
        return len(self._nodes)

    def names(self) -> list[str]:
        return list(self._nodes)

    def put(self, queue: KaiQueue) -> None:
        self._nodes[queue.name] = ShareNode(queue)
        self._paths = None

    def remove(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._paths = None

    def get(self, name: str) -> ShareNode | None:
        self._link()
        return self._nodes.get(name)

    def all(self) -> list[ShareNode]:
        """Returns the queues sorted by name, with current shares."""
        self.refresh()
        return [self._nodes[name] for name in sorted(self._nodes)]

    def path(self, name: str) -> tuple[ShareNode, ...]:
        """Returns the queue and its ancestors; empty if an ancestor does not exist or the ancestors form a cycle."""
        return self._link().get(name, ())

    def split(self, one: str, other: str) -> tuple[ShareNode, ShareNode] | None:
        """Returns the ancestors of both queues (or the queues themselves) right below their common ancestor; None if
        one queue is an ancestor of the other."""
        for left, right in zip(reversed(self.path(one)), reversed(self.path(other)), strict=False):
            if left is not right:
                return left, right
        return None

    def _link(self) -> dict[str, tuple[ShareNode, ...]]:
        if self._paths is None:
            paths = self._paths = {name: tuple(self._climb(name)) for name in self._nodes}
            for node in self._nodes.values():
                node.children = []
                node.held, node.kept, node.evicting, node.reserved, node.waiting, node.wanted = {}, {}, {}, {}, {}, {}
                node.revision += 1
            oldest = sorted(self._nodes.values(), key=lambda node: (node.queue.created, node.name))
            self.roots = [node for node in oldest if not node.queue.parent]
            for node in oldest:
                if len(paths[node.name]) > 1:
                    paths[node.name][1].children.append(node)
            for name, counts in self._own.items():
                for which, amounts in counts.items():
                    self._add(name, which, amounts, 1)
            self.outdate()
        return self._paths

    def _climb(self, name: str) -> Iterator[ShareNode]:
        """Yields the queue and its ancestors; nothing unless the last ancestor has no parent."""
        found: list[ShareNode] = []
        while name:
            node = self._nodes.get(name)
            if node is None or node in found or len(found) >= _DEEPEST:
                return iter(())
            found.append(node)
            name = node.queue.parent
        return iter(found)

    # Amounts of pods

    def count(self, name: str, which: str, amounts: Amounts, sign: int) -> None:
        """Adds or subtracts amounts of a queue; `which` is one of held, kept, evicting, reserved and waiting."""
        self._link()
        _add(self._own.setdefault(name, {}).setdefault(which, {}), amounts, sign)
        self._add(name, which, amounts, sign)

    def _add(self, name: str, which: str, amounts: Amounts, sign: int) -> None:
        path = self.path(name)
        for node in path:
            _add(getattr(node, which), amounts, sign)
            node.revision += 1
        if which in ("held", "waiting"):
            for resource, amount in amounts.items():
                self._want(path, resource, sign * amount)

    def _want(self, path: Sequence[ShareNode], resource: str, change: float) -> None:
        for node in path:
            before = node.request(resource)
            _add(node.wanted, {resource: change}, 1)
            change = node.request(resource) - before
            if not change:
                return
            self._changed.add(node)

    # Shares

    def refresh(self) -> None:
        self._link()
        self._stale = self._stale or any(node.changes_shares() for node in self._changed)
        self._changed.clear()
        if self._stale:
            self._stale = False
            before = {name: node.fair for name, node in self._nodes.items()}
            for node in self._nodes.values():
                node.fair = {}
            for resource in RESOURCES:
                self._divide(self.capacity.get(resource, 0.0), self.roots, resource)
            if any(node.fair != before[name] for name, node in self._nodes.items()):
                self.revision += 1

    def resize(self, capacity: Mapping[str, float]) -> None:
        """Takes over the amounts that there are to share."""
        self.capacity = capacity
        self.outdate()

    def outdate(self) -> None:
        """Notes that a value changed from which shares are computed."""
        self._stale = True
        self._divisions.clear()

    def _divide(self, total: float, nodes: Sequence[ShareNode], resource: str, parent: str = "") -> None:
        requests = [node.request(resource) for node in nodes]
        known = self._divisions.get((parent, resource))
        if known is None or known.total != total or known.requests != requests:
            claimants = [self._claimant(*pair, resource) for pair in zip(nodes, requests, strict=True)]
            known = _Division(total, requests, divide(total, claimants, whole=True, k=self.k))
            self._divisions[parent, resource] = known
        for node, request, share in zip(nodes, requests, known.shares, strict=True):
            node.fair[resource], node.divided[resource] = share, request
            if node.children:
                self._divide(share, node.children, resource, node.name)

    def _claimant(self, node: ShareNode, request: float, resource: str) -> Claimant:
        quota = node.queue.quotas[resource]
        usage = self.usage.get(node.name, {}).get(resource, 0.0)
        return Claimant(request, quota.weight, quota.quota, node.queue.priority, usage)


def _add(total: dict[str, float], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        left = total.get(name, 0.0) + sign * amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)
