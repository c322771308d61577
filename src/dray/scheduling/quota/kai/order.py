"""TurnOrder: which queue of KAI has its next pod tried.

Queues are compared at each level of the tree. These come first, in this order: queues that are not above their share of
all resources; queues that stay within quota with the next pod; queues of higher priority; queues that use nothing of
which they may have nothing; queues with the smaller dominant share, with the pod and then without; queues that may have
less; older queues. The next pod of a queue with children is the next pod of its first child.
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
        """The sort key of each queue, with the values from which it was computed."""

    def first(self, heads: Mapping[str, Pod], job: Job) -> str:
        """Returns the queue whose next pod is tried. `heads` are the next pods by queue, at least one."""
        concerned = {node for name in heads for node in self._tree.path(name)}
        found = self._first([root for root in self._tree.roots if root in concerned], concerned, heads, job)
        return found[1] if found is not None else next(iter(heads))

    def _first(
        self, nodes: Sequence[ShareNode], concerned: set[ShareNode], heads: Mapping[str, Pod], job: Job
    ) -> tuple[Key, str] | None:
        best: tuple[Key, str] | None = None
        for node in nodes:
            below = [child for child in node.children if child in concerned]
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
        all(node.remaining(name) > node.fair.get(name, 0.0) for name in RESOURCES),
        not node.within_quota(job),
        -node.queue.priority,
        any(not may_have[name] and node.remaining(name) + job.get(name, 0.0) > 0 for name in RESOURCES),
        node.share(job, capacity),
        node.share({}, capacity),
        # The sum is smaller for a queue that may have less of one resource and not more of any other.
        sum(may_have[name] / capacity[name] for name in RESOURCES if capacity.get(name)),
        node.queue.created,
        node.name,
    )
