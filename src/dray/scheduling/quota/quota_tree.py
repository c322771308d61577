"""QuotaTree: how much each queue may still take, in a tree of cohorts that lend to each other.

The amounts are per flavor and resource. A queue keeps for itself what its lending limit does not let others have, and
takes from its cohort no more than its borrowing limit. What cohorts use is kept up to date with every charge, so that
a question costs as much as the tree is deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.scheduling.quota.queue_policy import Asset as Asset

_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: int
    borrowing: int | None = None
    """The limit; None if there is none."""
    lending: int | None = None


NO_QUOTA: Final = Quota(0)


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A queue or a cohort."""

    name: str
    is_queue: bool
    quotas: Mapping[Asset, Quota] = field(default_factory=dict)
    above: str = ""
    """The name of the cohort; empty for none."""
    weight: float = 1.0
    used: dict[Asset, int] = field(default_factory=dict)
    """Usage: what a queue's pods have; of a cohort what those below it have beyond what they keep for themselves."""
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    totals: dict[Asset, int] = field(default_factory=dict)
    """The totals of the node and those below it, as far as they were asked for."""
    lendables: dict[str, int] = field(default_factory=dict)
    height: int = 0
    """How many levels are below it; 0 for a queue."""

    def quota(self, asset: Asset) -> Quota:
        return self.quotas.get(asset, NO_QUOTA)

    def total(self, asset: Asset) -> int:
        """Returns the quota of the node and those below it, without what these keep for themselves."""
        known = self.totals.get(asset)
        if known is None:
            known = self.totals[asset] = self.quota(asset).nominal + sum(
                child.total(asset) - child.kept(asset) for child in self.children
            )
        return known

    def lendable(self, resource: str) -> int:
        """Returns the quota that those below could have if nothing were in use, of all flavors together."""
        known = self.lendables.get(resource)
        if known is None:
            assets = {each for each in self._assets() if each.resource == resource}
            known = self.lendables[resource] = sum(self.available(each, idle=True) for each in assets)
        return known

    def _assets(self) -> set[Asset]:
        """Returns the assets that any node in the tree has quota of."""
        top = self
        while top.parent is not None:
            top = top.parent
        found: set[Asset] = set()
        below = [top]
        while below:
            each = below.pop()
            found.update(each.quotas)
            below += each.children
        return found

    def kept(self, asset: Asset) -> int:
        """Returns the quota that is not lent to others."""
        lending = self.quota(asset).lending
        return max(0, self.total(asset) - lending) if lending is not None else 0

    def is_borrowing(self, asset: Asset, more: int = 0) -> bool:
        """Whether more is in use than it and those below it have, or would be with so much more."""
        return self.used.get(asset, 0) + more > self.total(asset)

    def entitled(self, wanted: Mapping[Asset, int]) -> QuotaNode | None:
        """The lowest, from here up, that would not borrow with so much more; None where all would."""
        node: QuotaNode | None = self
        while node is not None:
            if not any(node.is_borrowing(asset, amount) for asset, amount in wanted.items()):
                return node
            # What it keeps for itself is not asked of the one above.
            wanted = {asset: max(0, amount - node._spare(asset)) for asset, amount in wanted.items()}
            node = node.parent
        return None

    def borrows_from(self, asset: Asset, amount: int) -> QuotaNode:
        """The lowest node from here up that has so much more without borrowing itself; the topmost where none has."""
        node = self
        while node.is_borrowing(asset, amount) and node.parent is not None:
            amount -= node._spare(asset)
            node = node.parent
        return node

    def _spare(self, asset: Asset) -> int:
        """Returns the quota that the node keeps for itself and does not use."""
        return max(0, self.kept(asset) - self.used.get(asset, 0))

    def take(self, asset: Asset, amount: int) -> None:
        """Notes that so much more is in use here, and above as far as it is borrowed."""
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
        total, used = self.total(asset), 0 if idle else self.used.get(asset, 0)
        if self.parent is None:
            return total - used
        kept = self.kept(asset)
        lent = self.parent.available(asset, idle=idle)
        limit = self.quota(asset).borrowing
        if limit is not None:
            lent = min(lent, total - kept - max(0, used - kept) + limit)
        return max(0, kept - used) + lent


class QuotaTree:
    def __init__(self) -> None:
        self._cohorts: dict[str, QuotaNode] = {}
        self._queues: dict[str, QuotaNode] = {}
        self._linked = True
        self._related: dict[str, tuple[str, ...]] = {}
        """The queues below each root."""

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

    def node(self, queue: str) -> QuotaNode:
        self._link()
        return self._queues[queue]

    def cohort(self, name: str) -> QuotaNode | None:
        self._link()
        return self._cohorts.get(name)

    def used(self, queue: str, asset: Asset) -> int:
        return self._queues[queue].used.get(asset, 0)

    def available(self, queue: str, asset: Asset) -> int:
        """How much more the queue may take, from itself and from others."""
        return self.node(queue).available(asset)

    def most(self, queue: str, asset: Asset) -> int:
        """How much it could ever have, if nobody used anything."""
        return self.node(queue).available(asset, idle=True)

    def is_borrowing(self, queue: str, asset: Asset, more: int = 0) -> bool:
        """Whether its pods have more than its own, or would with so much more."""
        return self._queues[queue].is_borrowing(asset, more)

    def borrowing_level(self, queue: str, asset: Asset, amount: int) -> int:
        """How far up the queue borrows with so much more: 0 where it does not, else the height of the cohort."""
        return self.node(queue).borrows_from(asset, amount).height

    def is_owed(self, queue: str, asset: Asset, amount: int) -> bool:
        """Whether so much more is its own, or that of a cohort above it, and others outside may have borrowed it."""
        node = self.node(queue).entitled({asset: amount})
        return node is not None and node.parent is not None

    def root(self, queue: str) -> str:
        """Returns the topmost cohort of a queue, or the queue itself: queues with one root lend to each other."""
        known = self._queues.get(queue)
        return self.root_of_cohort(known.above) if known is not None and known.above else f"queue {queue}"

    def root_of_cohort(self, cohort: str) -> str:
        seen = set[str]()
        while cohort not in seen and (above := self._cohorts.get(cohort)) is not None and above.above:
            seen.add(cohort)
            cohort = above.above
        return cohort

    def related(self, queue: str) -> tuple[str, ...]:
        """The queues that have the same root."""
        self._link()
        root = self.root(queue)
        if root not in self._related:
            self._related[root] = tuple(each for each in self._queues if self.root(each) == root)
        return self._related[root]

    def has_cycle(self, queue: str) -> bool:
        """Whether its cohorts are above each other: then nothing can be lent."""
        cohort, seen = self._queues[queue].above, set[str]()
        while cohort:
            if cohort in seen or len(seen) > _DEEPEST:
                return True
            seen.add(cohort)
            known = self._cohorts.get(cohort)
            cohort = known.above if known is not None else ""
        return False

    def _link(self) -> None:
        """Queues and cohorts came, changed or went: who is above whom, and what cohorts use by that."""
        if self._linked:
            return
        self._linked = True
        self._related = {}
        for queue in self._queues.values():
            self._name(queue.above)
        for cohort in list(self._cohorts.values()):
            self._name(cohort.above)
        for each in (*self._queues.values(), *self._cohorts.values()):
            each.parent, each.children, each.totals, each.lendables, each.height = None, [], {}, {}, 0
        for name, each in (*self._queues.items(), *self._cohorts.items()):
            # Cohorts that are above each other are each without one, and so is what is below them.
            if each.above and not self._is_below_itself(each.above):
                each.parent = self._cohorts[each.above]
                each.parent.children.append(each)
            if not each.is_queue:
                each.used = {}
            assert each.name == name
        for queue in self._queues.values():
            node, height = queue, 0
            while (above := node.parent) is not None:
                node, height = above, height + 1
                above.height = max(above.height, height)
            own, queue.used = queue.used, {}
            for asset, amount in own.items():
                queue.take(asset, amount)

    def _name(self, cohort: str) -> None:
        """One that nobody described has nothing of its own."""
        if cohort and cohort not in self._cohorts:
            self._cohorts[cohort] = QuotaNode(cohort, False)

    def _is_below_itself(self, cohort: str) -> bool:
        seen = set[str]()
        while cohort:
            if cohort in seen or len(seen) > _DEEPEST:
                return True
            seen.add(cohort)
            cohort = self._cohorts[cohort].above
        return False
