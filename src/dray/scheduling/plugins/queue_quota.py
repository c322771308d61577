"""QueueQuota: a pod in a queue is placed only where the queue has quota left for it, and when its turn has come."""

from __future__ import annotations

from dray.scheduling.cycle import Cycle
from dray.scheduling.front_ends.kueue import QUEUE_LABEL, ClusterQueue
from dray.scheduling.model import Node
from dray.scheduling.plugin import SKIP, Plugin, Skip
from dray.scheduling.queues import ANY_QUEUE, HEAD, QUOTA
from dray.scheduling.quota_tree import Asset
from dray.scheduling.quota_waiters import alike
from dray.scheduling.reasons import Code, ObjectRef, Reason
from dray.scheduling.state import State
from dray.scheduling.status import Status


class QueueQuota(Plugin):
    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        pod = cycle.pod
        if not self._queues.served or QUEUE_LABEL not in pod.labels:
            return SKIP
        self._queues.unreserve(pod.uid)
        namespace = self._state.affinity.namespaces.get(pod.key[0]) or {}
        problem = self._queues.problem(pod, namespace)
        queue = self._queues.queue_of(pod)
        if problem is None and queue is not None and (name := self._queues.uncovered(queue, pod)) is not None:
            problem = Reason(Code.QUEUE_UNCOVERED, (queue.name, name))
        if problem is not None or queue is None:
            assert problem is not None
            return Status(self.name, (problem,), waits_for=(ANY_QUEUE,))
        if self._queues.is_held_up(queue, pod):
            reason = Reason(Code.QUEUE_HELD_UP, (queue.name,))
            return Status(self.name, (reason,), waits_for=(ObjectRef(HEAD, "", queue.name), ANY_QUEUE))
        wanted = self._queues.wanted(queue, pod)
        cycle.data[self.name] = queue, wanted
        alone, root = pod.group is None, self._queues.tree.root(queue.name)
        key = alike(root, queue.name, pod, wanted)
        if (short := self._short(queue, wanted)) is not None:
            if not alone:
                return Status(self.name, (short,), waits_for=(ANY_QUEUE, ObjectRef(QUOTA, "", root)))
            self._queues.waiters.lack(pod.uid, key)
            return Status(self.name, (short,), waits_for=(ANY_QUEUE,), alike=key)
        if alone:
            self._queues.waiters.granted(pod.uid, key)
        # Where every node is as good as any other, and nobody comes along, that was all.
        return SKIP if alone and self._queues.is_uniform(queue) else None

    def _short(self, queue: ClusterQueue, wanted: dict[str, int]) -> Reason | None:
        """What is too little of, whichever flavor the pod gets."""
        for name, amount in wanted.items():
            left = [
                self._queues.tree.available(queue.name, Asset(flavor, name))
                for flavor in self._queues.flavors(queue, name)
            ]
            if amount > max(left, default=0):
                return Reason(Code.QUOTA, (queue.name, name, str(amount), str(max(0, *left, 0))))
        return None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        queue, wanted = cycle.data[self.name]
        for name, amount in wanted.items():
            flavor = self._queues.flavor_on(queue, name, node)
            if flavor is None:
                return Status.of(self.name, Code.NO_FLAVOR, queue.name, resolvable=False)
            left = self._queues.tree.available(queue.name, Asset(flavor, name))
            if amount > left:
                return Status.of(self.name, Code.QUOTA, queue.name, name, str(amount), str(max(0, left)))
        return None
