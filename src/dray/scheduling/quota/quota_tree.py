"""QuotaTree: how much quota each queue has left, in a tree of cohorts that lend to each other.

Amounts are kept for each flavor and resource. A queue keeps for itself what exceeds its lending limit, and borrows no
more than its borrowing limit. The usage of cohorts is updated with every charge, so that the cost of a question depends
only on the depth of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from dray.scheduling.model.journal import Changes, Journal
from dray.scheduling.quota.queue_policy import Asset as Asset

_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: int
    borrowing: int | None = None
    """The borrowing limit; None if borrowing is not limited."""
    lending: int | None = None
    """The lending limit; None if lending is not limited."""


NO_QUOTA: Final = Quota(0)


_Limits = tuple[int, int, int | None]
"""Limits of a node in the tree: its total quota, the part that it does not lend, and its borrowing limit."""


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A queue or a cohort of the tree."""

    name: str
    is_queue: bool
    quotas: Mapping[Asset, Quota] = field(default_factory=dict)
    above: str = ""
    """The name of the parent cohort; empty if there is none."""
    weight: float = 1.0
    used: dict[Asset, int] = field(default_factory=dict)
    """The usage. That of a cohort is the usage of its children beyond what these keep for themselves."""
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    limits: dict[Asset, _Limits] = field(default_factory=dict)
    """Cached answers of `_limits`."""
    lendables: dict[str, int] = field(default_factory=dict)
    height: int = 0
    """The number of levels below the node; 0 for a queue."""

    def quota(self, asset: Asset) -> Quota:
        return self.quotas.get(asset, NO_QUOTA)

    def total(self, asset: Asset) -> int:
        """Returns the quota of the node and its descendants, without what these keep for themselves."""
        return (self.limits.get(asset) or self._limits(asset))[0]

    def _limits(self, asset: Asset) -> _Limits:
        quota = self.quota(asset)
        total = quota.nominal + sum(child.total(asset) - child.kept(asset) for child in self.children)
        kept = max(0, total - quota.lending) if quota.lending is not None else 0
        found = self.limits[asset] = total, kept, quota.borrowing
        return found

    def lendable(self, resource: str) -> int:
        """Returns the amount of a resource that the node could use if no quota were in use, of all flavors together."""
        known = self.lendables.get(resource)
        if known is None:
            assets = {asset for asset in self._assets() if asset.resource == resource}
            known = self.lendables[resource] = sum(self.available(asset, idle=True) for asset in assets)
        return known

    def _assets(self) -> set[Asset]:
        """Returns the assets that any node in the tree has quota of."""
        top = self
        while top.parent is not None:
            top = top.parent
        found: set[Asset] = set()
        below = [top]
        while below:
            node = below.pop()
            found.update(node.quotas)
            below += node.children
        return found

    def kept(self, asset: Asset) -> int:
        """Returns the quota that is not lent to others."""
        return (self.limits.get(asset) or self._limits(asset))[1]

    def is_borrowing(self, asset: Asset, more: int = 0) -> bool:
        """Whether the usage, with `more` added, exceeds the quota of the node and its descendants."""
        return self.used.get(asset, 0) + more > (self.limits.get(asset) or self._limits(asset))[0]

    def entitled(self, wanted: Mapping[Asset, int]) -> QuotaNode | None:
        """Returns the lowest node from here up that would not borrow with these amounts more; None if all would."""
        node: QuotaNode | None = self
        while node is not None:
            for asset, amount in wanted.items():
                if node.is_borrowing(asset, amount):
                    break
            else:
                return node
            # The quota that a node keeps for itself is not taken from its parent.
            wanted = {asset: max(0, amount - node._spare(asset)) for asset, amount in wanted.items()}
            node = node.parent
        return None

    def borrows_from(self, asset: Asset, amount: int) -> QuotaNode:
        """Returns the lowest node from here up that would not borrow with the amount; the topmost if all would."""
        node = self
        while node.parent is not None:
            total, kept, _ = node.limits.get(asset) or node._limits(asset)
            used = node.used.get(asset, 0)
            if used + amount <= total:
                break
            if kept > used:
                amount -= kept - used
            node = node.parent
        return node

    def _spare(self, asset: Asset) -> int:
        """Returns the quota that the node keeps for itself and does not use."""
        return max(0, self.kept(asset) - self.used.get(asset, 0))

    def take(self, asset: Asset, amount: int) -> None:
        """Adds an amount to the usage of the node, and of its ancestors as far as it is borrowed from them."""
        node: QuotaNode | None = self
        while node is not None and amount:
            before = node.used.get(asset, 0)
            if before + amount:
                node.used[asset] = before + amount
            else:
                node.used.pop(asset, None)
            kept = node.kept(asset) if node.parent is not None else 0
            amount = max(0, before + amount - kept) - max(0, before - kept)
            node = node.parent

    def available(self, asset: Asset, *, idle: bool = False) -> int:
        total, kept, limit = self.limits.get(asset) or self._limits(asset)
        used = 0 if idle else self.used.get(asset, 0)
        if self.parent is None:
            return total - used
        borrowable = self.parent.available(asset, idle=idle)
        if limit is not None:
            borrowable = min(borrowable, total - max(used, kept) + limit)
        return kept - used + borrowable if kept > used else borrowable


class QuotaTree:
    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._cohorts: dict[str, QuotaNode] = {}
        self._queues: dict[str, QuotaNode] = {}
        self._linked = True
        self._related: dict[str, tuple[str, ...]] = {}
        """The names of the queues below each root."""

    def put_cohort(self, name: str, quotas: Mapping[Asset, Quota], parent: str, weight: float = 1.0) -> None:
        self._cohorts[name] = QuotaNode(name, False, quotas, parent, weight)
        self._linked = False

    def remove_cohort(self, name: str) -> None:
        self._cohorts.pop(name, None)
        self._linked = False

    def put_queue(self, name: str, quotas: Mapping[Asset, Quota], cohort: str, weight: float = 1.0) -> None:
        known = self._queues.get(name)
        used = known.used if known is not None else {}
        self._queues[name] = QuotaNode(name, True, quotas, cohort, weight, used)
        self._linked = False

    def remove_queue(self, name: str) -> None:
        self._queues.pop(name, None)
        self._linked = False

    def charge(self, queue: str, amounts: Mapping[Asset, int], sign: int) -> None:
        self._link()
        node = self._queues.get(queue)
        if node is not None:
            for asset, amount in amounts.items():
                node.take(asset, sign * amount)

    def what_if(self, queue: str, amounts: Mapping[Asset, int]) -> Changes:
        """Returns a trial, for a `with` statement, in which the queue uses these amounts more."""
        trial = self._journal.trial()
        self.charge(queue, amounts, 1)
        trial.record(("usage", queue), partial(self.charge, queue, amounts, -1))
        return trial

    def node(self, queue: str) -> QuotaNode:
        self._link()
        return self._queues[queue]

    def cohort(self, name: str) -> QuotaNode | None:
        self._link()
        return self._cohorts.get(name)

    def used(self, queue: str, asset: Asset) -> int:
        return self._queues[queue].used.get(asset, 0)

    def available(self, queue: str, asset: Asset) -> int:
        """Returns how much more the queue may use, including what it can borrow."""
        return self.node(queue).available(asset)

    def most(self, queue: str, asset: Asset) -> int:
        """Returns how much the queue could use if no quota were in use."""
        return self.node(queue).available(asset, idle=True)

    def is_borrowing(self, queue: str, asset: Asset, more: int = 0) -> bool:
        """Whether the usage of the queue, with `more` added, exceeds its quota."""
        return self._queues[queue].is_borrowing(asset, more)

    def borrowing_level(self, queue: str, asset: Asset, amount: int) -> int:
        """Returns the height of the cohort from which the queue would borrow the amount; 0 if it would not borrow."""
        return self.node(queue).borrows_from(asset, amount).height

    def is_owed(self, queue: str, asset: Asset, amount: int) -> bool:
        """Whether the queue or a cohort of it has quota for the amount, which queues outside may have borrowed."""
        node = self.node(queue).entitled({asset: amount})
        return node is not None and node.parent is not None

    def root(self, queue: str) -> str:
        """Returns the name of the topmost cohort of a queue, or one for the queue alone. Queues with the same root lend
        to each other."""
        known = self._queues.get(queue)
        return self.root_of_cohort(known.above) if known is not None and known.above else f"queue {queue}"

    def root_of_cohort(self, cohort: str) -> str:
        seen = set[str]()
        while cohort not in seen and (above := self._cohorts.get(cohort)) is not None and above.above:
            seen.add(cohort)
            cohort = above.above
        return cohort

    def related(self, queue: str) -> tuple[str, ...]:
        """Returns the names of the queues with the same root."""
        self._link()
        root = self.root(queue)
        if root not in self._related:
            self._related[root] = tuple(name for name in self._queues if self.root(name) == root)
        return self._related[root]

    def has_cycle(self, queue: str) -> bool:
        """Whether the cohorts of the queue form a cycle, so that they cannot lend."""
        cohort, seen = self._queues[queue].above, set[str]()
        while cohort:
            if cohort in seen or len(seen) > _DEEPEST:
                return True
            seen.add(cohort)
            known = self._cohorts.get(cohort)
            cohort = known.above if known is not None else ""
        return False

    def _link(self) -> None:
        """Computes parents, children and the usage of cohorts, after queues or cohorts changed."""
        if self._linked:
            return
        self._linked = True
        self._related = {}
        for queue in self._queues.values():
            self._add_cohort(queue.above)
        for cohort in list(self._cohorts.values()):
            self._add_cohort(cohort.above)
        for member in (*self._queues.values(), *self._cohorts.values()):
            member.parent, member.children, member.limits, member.lendables, member.height = None, [], {}, {}, 0
        for name, member in (*self._queues.items(), *self._cohorts.items()):
            # Cohorts in a cycle, and queues and cohorts right below them, have no parent.
            if member.above and not self._is_in_cycle(member.above):
                member.parent = self._cohorts[member.above]
                member.parent.children.append(member)
            if not member.is_queue:
                member.used = {}
            assert member.name == name
        for queue in self._queues.values():
            node, height = queue, 0
            while (above := node.parent) is not None:
                node, height = above, height + 1
                above.height = max(above.height, height)
            own, queue.used = queue.used, {}
            for asset, amount in own.items():
                queue.take(asset, amount)

    def _add_cohort(self, cohort: str) -> None:
        """Adds a cohort without quota if there is no object for it."""
        if cohort and cohort not in self._cohorts:
            self._cohorts[cohort] = QuotaNode(cohort, False)

    def _is_in_cycle(self, cohort: str) -> bool:
        seen = set[str]()
        while cohort:
            if cohort in seen or len(seen) > _DEEPEST:
                return True
            seen.add(cohort)
            cohort = self._cohorts[cohort].above
        return False
