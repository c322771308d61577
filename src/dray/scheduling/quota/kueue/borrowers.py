"""Borrowers: queues that use more than their quota, from which another queue may reclaim.

The search starts at the queue that asks for quota and visits its cohorts upwards. In each cohort it finds the queues
below other children that borrow. A child that uses no more than its own quota and that of its descendants is skipped,
even if queues below it borrow from each other. Borrowers owe quota to the asking queue if they are found above the
lowest cohort whose quota is enough for what is asked, however small the quota of the queue itself is.
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
    """The lowest cohort that contains both the borrower and the queue that asks."""
    owes: bool
    """Whether a descendant of `common` on the path to the asking queue would not borrow with what is asked."""

    def is_borrowing(self, assets: Collection[Asset]) -> bool:
        """Whether the queue and its cohorts below the common cohort still borrow one of the assets."""
        for node in path_of(self.queue):
            if node is self.common:
                return True
            if not _is_borrowing(node, assets):
                return False
        return False


def borrowers(own: QuotaNode, wanted: Mapping[Asset, int], assets: Collection[Asset]) -> Iterator[Borrower]:
    """Yields the queues that borrow one of the assets; `wanted` are all amounts that the queue asks for."""
    entitled, owes = own.entitled(wanted), False
    for below, common in pairwise(path_of(own)):
        owes = owes or below is entitled
        for queue in _below(common, below, assets):
            yield Borrower(queue, common, owes)


def _below(cohort: QuotaNode, skipped: QuotaNode, assets: Collection[Asset]) -> Iterator[QuotaNode]:
    for child in cohort.children:
        if child is skipped or not _is_borrowing(child, assets):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _below(child, skipped, assets)


def _is_borrowing(node: QuotaNode, assets: Collection[Asset]) -> bool:
    return any(node.is_borrowing(asset) for asset in assets)
