"""KueueOrder: of pods that could be tried now and share a cohort, whose turn it is.

Each queue has a first one: by priority, then by arrival; where the queue goes by use, of the LocalQueue that used
least. Of these, where shares count, the one is next that need not borrow what it asks for, then the one that leaves its
queue with the smallest share, from the topmost cohort down. Else the one is next that borrows from the lowest cohort,
or not at all, then by priority, then by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kueue.shares import Share, path_of, share_of, with_more
from dray.scheduling.quota.queue_policy import Asset
from dray.scheduling.quota.quota_tree import QuotaNode, QuotaTree
from dray.scheduling.quota.turns import Turns


@dataclass(frozen=True, slots=True)
class Head:
    """The next of a LocalQueue, with what is to be let in with it."""

    lane: str
    queue: str
    turn: tuple[int, int]
    """Priority and arrival; the lowest is the first."""
    score: float
    """Usage of the LocalQueue, if that counts."""
    assets: Mapping[Asset, int]


class KueueOrder:
    def __init__(
        self, tree: QuotaTree, head: Callable[[str, Pod], Head | None], is_fair: Callable[[str], bool]
    ) -> None:
        """`head` describes the next pod of a lane; `is_fair` tells whether shares count below a root."""
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
                # Its queue is gone: that is told when it is tried.
                return lane
            known = best.get(head.queue)
            if known is None or (head.score, head.turn) < (known.score, known.turn):
                best[head.queue] = head
        if len(best) > 1 and self._is_fair(root):
            return self._fairest(best.values()).lane
        return min(best.values(), key=lambda each: (self._level(each), each.turn)).lane

    def _level(self, head: Head) -> int:
        levels = (self._tree.borrowing_level(head.queue, each, amount) for each, amount in head.assets.items())
        return max(levels, default=0)

    def _fairest(self, heads: Iterable[Head]) -> Head:
        """The winner of a tournament: the cohort's children that have somebody are compared by whether they borrow what
        is asked for and by their shares, with the best of each let in, and so on upwards."""
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
            with with_more(node, head.assets):
                for each in path:
                    borrows = each.parent is not None and any(map(each.is_borrowing, head.assets))
                    shares[head.queue, each] = borrows, share_of(each)

        def best(node: QuotaNode) -> Head:
            if node in own:
                return own[node]
            found = [(child, best(child)) for child in below[node]]
            return min(found, key=lambda each: (shares[each[1].queue, each[0]], each[1].turn))[1]

        assert top is not None
        return best(top)
