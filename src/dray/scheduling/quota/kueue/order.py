"""KueueOrder: decides which of the waiting pods in a tree of cohorts is tried next.

The first pod of each queue is found by priority, then by arrival. With usage-based admission, the LocalQueue with the
least usage comes first. With fair sharing, the next of these pods is one that need not borrow, then the pod that leaves
its queue with the smallest share, compared from the topmost cohort down. Without fair sharing, the next pod is one that
need not borrow, then the pod that borrows from the lowest cohort, then by priority, then by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kueue.shares import Share, path_of, share_of
from dray.scheduling.quota.queue_policy import Asset
from dray.scheduling.quota.quota_tree import QuotaNode, QuotaTree
from dray.scheduling.quota.turns import Turns


class Head(NamedTuple):
    """The next pod of a LocalQueue, with the quota of all pods that are admitted with it."""

    lane: str
    queue: str
    turn: tuple[int, int]
    """The negative priority, and the arrival; the lowest turn comes first."""
    score: float
    """The usage of the LocalQueue; 0 without usage-based admission."""
    assets: Mapping[Asset, int]


class KueueOrder:
    def __init__(
        self, tree: QuotaTree, head: Callable[[str, Pod], Head | None], is_fair: Callable[[str], bool]
    ) -> None:
        """`head` returns the Head of a lane with its next pod; `is_fair` tells whether a root has fair sharing."""
        self._tree = tree
        self._head = head
        self._is_fair = is_fair
        self._turns: dict[str, Turns] = {}

    def turns(self, root: str) -> Turns:
        """Returns the turns of pods whose queues are below a root."""
        known = self._turns.get(root)
        if known is None:
            known = self._turns[root] = Turns(lambda pods: self._first(root, pods))
        return known

    def _first(self, root: str, pods: Mapping[str, Pod]) -> str:
        best: dict[str, Head] = {}
        for lane, pod in pods.items():
            head = self._head(lane, pod)
            if head is None:
                # The queue does not exist any more: the attempt of the pod reports that.
                return lane
            known = best.get(head.queue)
            if known is None or (head.score, head.turn) < (known.score, known.turn):
                best[head.queue] = head
        if len(best) > 1 and self._is_fair(root):
            return self._fairest(best.values()).lane
        return min(best.values(), key=lambda head: (self._level(head), head.turn)).lane

    def _level(self, head: Head) -> int:
        highest, node = 0, self._tree.node(head.queue)
        for asset, amount in head.assets.items():
            height = node.borrows_from(asset, amount).height
            if height > highest:
                highest = height
        return highest

    def _fairest(self, heads: Iterable[Head]) -> Head:
        """Returns the next pod by fair sharing. In each cohort, from the bottom up, the best pod of each child is
        found. The children are compared by whether they have to borrow and by their shares, as if that pod were
        admitted."""
        shares: dict[tuple[str, QuotaNode], tuple[bool, Share]] = {}
        below: dict[QuotaNode, set[QuotaNode]] = {}
        own: dict[QuotaNode, Head] = {}
        top = None
        for head in heads:
            node = self._tree.node(head.queue)
            own[node], path = head, path_of(node)
            top = path[-1]
            for lower, upper in pairwise(path):
                below.setdefault(upper, set()).add(lower)
            with self._tree.what_if(head.queue, head.assets):
                for member in path:
                    borrows = member.parent is not None and any(map(member.is_borrowing, head.assets))
                    shares[head.queue, member] = borrows, share_of(member)

        def best(node: QuotaNode) -> Head:
            if node in own:
                return own[node]
            found = [(child, best(child)) for child in below[node]]
            return min(found, key=lambda entry: (shares[entry[1].queue, entry[0]], entry[1].turn))[1]

        assert top is not None
        return best(top)
