"""Shares: how much each queue and cohort of Kueue has borrowed of what its parent cohort can lend.

The share is computed for each resource: the usage beyond the node's own quota, in thousandths of what its parent can
lend, divided by the node's weight. The largest of these is the share of the node. The share is 0 if the node borrows
nothing, and infinite if it borrows and its weight is 0.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final, NamedTuple

from dray.scheduling.quota.quota_tree import QuotaNode

_MOST: Final = 2**63 - 1


class Share(NamedTuple):
    """A weighted share. Infinite shares are compared by their values without weights."""

    value: float
    unweighted: float

    @property
    def shown(self) -> int:
        """Returns the share as the status of a queue shows it."""
        return _MOST if self.value == inf else ceil(self.value)


NONE: Final = Share(0.0, 0.0)


def share_of(node: QuotaNode) -> Share:
    """Returns the share of a node by the current usage of the tree."""
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
        # Finite shares are compared by the weighted value alone.
        return Share(highest / node.weight, 0.0)
    return Share(inf, highest)


def path_of(node: QuotaNode) -> list[QuotaNode]:
    """Returns the node and its cohorts up to the topmost."""
    found = [node]
    while (above := found[-1].parent) is not None:
        found.append(above)
    return found


def below_common(one: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """Returns the children of the lowest common cohort that contain `one` and `other`."""
    path = path_of(one)
    known = {id(member): index for index, member in enumerate(path)}
    others = path_of(other)
    for index, member in enumerate(others):
        if id(member) in known:
            return path[max(0, known[id(member)] - 1)], others[max(0, index - 1)]
    return one, other
