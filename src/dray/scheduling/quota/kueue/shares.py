"""Shares of Kueue's queues and cohorts: how much of what could be lent each has borrowed.

A node's share is the largest, over all resources, of what it uses beyond its own as thousandths of what its cohort
could lend, divided by its weight. One that borrows nothing has none; one of weight 0 that borrows has an infinite one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import ceil, inf
from typing import Final, NamedTuple

from dray.scheduling.quota.queue_policy import Asset
from dray.scheduling.quota.quota_tree import QuotaNode

_MOST: Final = 2**63 - 1


class Share(NamedTuple):
    """A weighted share. Of two infinite shares, the one that is larger without weights is larger."""

    value: float
    unweighted: float

    @property
    def shown(self) -> int:
        """Returns the share as the status of a queue shows it."""
        return _MOST if self.value == inf else ceil(self.value)


NONE: Final = Share(0.0, 0.0)


def share_of(node: QuotaNode) -> Share:
    """Returns the share of a node by the usage that the tree has now."""
    if node.parent is None:
        return NONE
    borrowed: dict[str, int] = {}
    for asset, used in node.used.items():
        if (more := used - node.total(asset)) > 0:
            borrowed[asset.resource] = borrowed.get(asset.resource, 0) + more
    if not borrowed:
        return NONE
    above = node.parent
    highest = max(
        1000 * more / above.lendable(name) if above.lendable(name) > 0 else inf for name, more in borrowed.items()
    )
    if node.weight > 0:
        # What is compared is weighted already.
        return Share(highest / node.weight, 0.0)
    return Share(inf, highest)


@contextmanager
def with_more(node: QuotaNode, assets: Mapping[Asset, int]) -> Iterator[None]:
    """Computes shares as if the queue used so much more."""
    for asset, amount in assets.items():
        node.take(asset, amount)
    try:
        yield
    finally:
        for asset, amount in assets.items():
            node.take(asset, -amount)


def path_of(node: QuotaNode) -> list[QuotaNode]:
    """Returns the nodes from this one up to the topmost cohort."""
    found = [node]
    while (above := found[-1].parent) is not None:
        found.append(above)
    return found


def below_common(one: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The nodes of both right below the cohort in which they meet."""
    path = path_of(one)
    known = {id(each): index for index, each in enumerate(path)}
    others = path_of(other)
    for index, each in enumerate(others):
        if id(each) in known:
            return path[max(0, known[id(each)] - 1)], others[max(0, index - 1)]
    return one, other
