"""QuotaTree: how much each queue may still take, in a tree of cohorts that lend to each other.

The amounts are per flavor and resource. A queue keeps for itself what its lending limit does not let others have, and
takes from its cohort no more than its borrowing limit. The arithmetic is Kueue's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_DEEPEST: Final = 64


class Asset(NamedTuple):
    flavor: str
    resource: str


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: int
    borrowing: int | None = None
    """None where there is no limit."""
    lending: int | None = None


NO_QUOTA: Final = Quota(0)


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A queue or a cohort."""

    quotas: Mapping[Asset, Quota] = field(default_factory=dict)
    parent: str = ""
    """The cohort; empty for none."""
    own: dict[Asset, int] = field(default_factory=dict)
    """What a queue's pods have."""
    name: str = ""
    """Of a cohort."""


class QuotaTree:
    def __init__(self) -> None:
        self._cohorts: dict[str, QuotaNode] = {}
        self._queues: dict[str, QuotaNode] = {}
        self._children: dict[str, list[QuotaNode]] | None = None

    def put_cohort(self, name: str, quotas: Mapping[Asset, Quota], parent: str) -> None:
        self._cohorts[name] = QuotaNode(quotas, parent, name=name)
        self._children = None

    def remove_cohort(self, name: str) -> None:
        self._cohorts.pop(name, None)
        self._children = None

    def put_queue(self, name: str, quotas: Mapping[Asset, Quota], cohort: str) -> None:
        known = self._queues.get(name)
        self._queues[name] = QuotaNode(quotas, cohort, known.own if known is not None else {})
        self._children = None

    def remove_queue(self, name: str) -> None:
        self._queues.pop(name, None)
        self._children = None

    def charge(self, queue: str, amounts: Mapping[Asset, int], sign: int) -> None:
        node = self._queues.get(queue)
        if node is None:
            return
        for asset, amount in amounts.items():
            left = node.own.get(asset, 0) + sign * amount
            if left:
                node.own[asset] = left
            else:
                node.own.pop(asset, None)

    def used(self, queue: str, asset: Asset) -> int:
        return self._queues[queue].own.get(asset, 0)

    def available(self, queue: str, asset: Asset) -> int:
        """How much more the queue may take, from itself and from others."""
        return self._available(self._queues[queue], asset)

    def most(self, queue: str, asset: Asset) -> int:
        """How much it could ever have, if nobody used anything."""
        return self._available(self._queues[queue], asset, idle=True)

    def root(self, queue: str) -> str:
        """What all share that may lend to each other: the topmost cohort, or the queue itself."""
        cohort, seen = self._queues[queue].parent, set[str]()
        if not cohort:
            return f"queue {queue}"
        while cohort not in seen and (above := self._cohorts.get(cohort)) is not None and above.parent:
            seen.add(cohort)
            cohort = above.parent
        return cohort

    def has_cycle(self, queue: str) -> bool:
        """Whether its cohorts are above each other: then nothing can be lent."""
        cohort, seen = self._queues[queue].parent, set[str]()
        while cohort:
            if cohort in seen or len(seen) > _DEEPEST:
                return True
            seen.add(cohort)
            above = self._cohorts.get(cohort)
            cohort = above.parent if above is not None else ""
        return False

    def _available(self, node: QuotaNode, asset: Asset, *, idle: bool = False) -> int:
        total, used = self._total(node, asset), 0 if idle else self._used(node, asset)
        parent = self._cohort(node.parent)
        if parent is None:
            return total - used
        quota = node.quotas.get(asset, NO_QUOTA)
        kept = _kept(quota, total)
        lent = self._available(parent, asset, idle=idle)
        if quota.borrowing is not None:
            lent = min(lent, total - kept - max(0, used - kept) + quota.borrowing)
        return max(0, kept - used) + lent

    def _total(self, node: QuotaNode, asset: Asset) -> int:
        """What it and those below it have, without what these keep for themselves."""
        below = 0
        for child in self._below(node):
            total = self._total(child, asset)
            below += total - _kept(child.quotas.get(asset, NO_QUOTA), total)
        return node.quotas.get(asset, NO_QUOTA).nominal + below

    def _used(self, node: QuotaNode, asset: Asset) -> int:
        used = node.own.get(asset, 0)
        for child in self._below(node):
            kept = _kept(child.quotas.get(asset, NO_QUOTA), self._total(child, asset))
            used += max(0, self._used(child, asset) - kept)
        return used

    def _cohort(self, name: str) -> QuotaNode | None:
        """One that nobody described has nothing of its own."""
        if not name:
            return None
        known = self._cohorts.get(name)
        if known is None:
            known = self._cohorts[name] = QuotaNode(name=name)
            self._children = None
        return known

    def _below(self, node: QuotaNode) -> list[QuotaNode]:
        if self._children is None:
            self._children = {}
            for each in (*self._queues.values(), *self._cohorts.values()):
                if each.parent:
                    self._children.setdefault(each.parent, []).append(each)
        return self._children.get(node.name, []) if node.name else []


def _kept(quota: Quota, total: int) -> int:
    """What is not lent to others."""
    return max(0, total - quota.lending) if quota.lending is not None else 0
