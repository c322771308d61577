"""Borrowers: queues that use more than their own, as one sees them that wants something back.

From the queue that asks the cohorts are walked up. At each of them, whoever borrows on the other branches is found; a
branch that is within what it and all below it have is passed over, whatever its queues borrow from each other. Above
the lowest cohort whose quota is enough for what is asked, the queue has a right to it that borrowers do not have: they
owe it, however little is the queue's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from dray.scheduling.quota.kueue.shares import path_of
from dray.scheduling.quota.queue_policy import Asset
from dray.scheduling.quota.quota_tree import QuotaNode


@dataclass(frozen=True, slots=True)
class Borrower:
    queue: QuotaNode
    common: QuotaNode
    """The cohort in which it and the queue that asks meet."""
    owes: bool
    """Whether what is asked is not beyond the quota of the branch of `common` that the asking queue is in."""

    def is_borrowing(self, assets: Collection[Asset]) -> bool:
        """Whether it and the cohorts between it and the common one still borrow one of the assets."""
        for node in path_of(self.queue):
            if node is self.common:
                return True
            if not _is_borrowing(node, assets):
                return False
        return False


def borrowers(own: QuotaNode, wanted: Mapping[Asset, int], assets: Collection[Asset]) -> Iterator[Borrower]:
    """Yields the queues that borrow one of the assets; `wanted` is all that the queue asks for."""
    entitled, owes = own.entitled(wanted), False
    for below, common in pairwise(path_of(own)):
        owes = owes or below is entitled
        for queue in _below(common, below, assets):
            yield Borrower(queue, common, owes)


def _below(cohort: QuotaNode, passed: QuotaNode, assets: Collection[Asset]) -> Iterator[QuotaNode]:
    for child in cohort.children:
        if child is passed or not _is_borrowing(child, assets):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _below(child, passed, assets)


def _is_borrowing(node: QuotaNode, assets: Collection[Asset]) -> bool:
    return any(node.is_borrowing(each) for each in assets)
