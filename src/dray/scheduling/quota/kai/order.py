"""TurnOrder: which queue of KAI has its next pod tried.

At each level of the tree: queues that are not above their share; that stay within quota with the next pod; of higher
priority; that use nothing of which their share is zero; with the smaller dominant share, with the pod and without; that
may have less; that are older. The pod of a queue with others below it is the next one of the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import Amounts, ShareNode, ShareTree

Key = tuple[bool, bool, int, bool, float, float, float, str, str]
Job = Callable[[Pod], Amounts]


class TurnOrder:
    def __init__(self, tree: ShareTree) -> None:
        self._tree = tree
        self._keys: dict[str, tuple[object, Key]] = {}
        """By queue, for as long as what it was made from is the same."""

    def first(self, heads: Mapping[str, Pod], job: Job) -> str:
        """`heads` are the next pods by queue, and there is one."""
        concerned = {node for name in heads for node in self._tree.path(name)}
        found = self._first([each for each in self._tree.roots if each in concerned], concerned, heads, job)
        return found[1] if found is not None else next(iter(heads))

    def _first(
        self, nodes: Sequence[ShareNode], concerned: set[ShareNode], heads: Mapping[str, Pod], job: Job
    ) -> tuple[Key, str] | None:
        best: tuple[Key, str] | None = None
        for node in nodes:
            below = [each for each in node.children if each in concerned]
            within = self._first(below, concerned, heads, job) if below else None
            name = within[1] if within is not None else node.name
            if name in heads:
                key = self._key(node, heads[name], job)
                if best is None or key < best[0]:
                    best = key, name
        return best

    def _key(self, node: ShareNode, pod: Pod, job: Job) -> Key:
        wanted = job(pod)
        stamp = pod.uid, node.revision, self._tree.revision, id(node), tuple(wanted.values())
        known = self._keys.get(node.name)
        if known is None or known[0] != stamp:
            known = self._keys[node.name] = stamp, key(node, wanted, self._tree.capacity)
        return known[1]


def key(node: ShareNode, job: Amounts, capacity: Amounts) -> Key:
    may_have = node.may_have(capacity)
    return (
        all(node.staying(each) > node.fair.get(each, 0.0) for each in RESOURCES),
        not node.within_quota(job),
        -node.queue.priority,
        any(not may_have[each] and node.staying(each) + job.get(each, 0.0) > 0 for each in RESOURCES),
        node.share(job, capacity),
        node.share({}, capacity),
        # Where one may have no more of anything than another, and of something less, this is less.
        sum(may_have[each] / capacity[each] for each in RESOURCES if capacity.get(each)),
        node.queue.created,
        node.name,
    )
