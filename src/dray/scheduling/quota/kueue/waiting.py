"""KueueWaiting: pods that wait in queues of Kueue, and the order in which they are tried.

Pods of a queue are ordered by priority, then by arrival. With usage-based admission the usage of their LocalQueues
comes first. In a StrictFIFO queue the first workload holds up the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from dray.api.objects import Key
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kueue.kinds import ClusterQueue, local_of
from dray.scheduling.quota.kueue.order import Head, KueueOrder
from dray.scheduling.quota.kueue.strict import StrictFIFO
from dray.scheduling.quota.kueue.usage import LocalUsage
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import Ask, Asset
from dray.scheduling.quota.turns import Turn

if TYPE_CHECKING:
    from dray.scheduling.quota.kueue.policy import KueueQueues


class KueueWaiting:
    revision = 0

    def __init__(self, queues: KueueQueues, context: QueueContext) -> None:
        self._queues = queues
        self._groups = context.groups
        self.usage = LocalUsage()
        self._order = KueueOrder(queues.tree, self._head, queues.is_fair)
        self._strict = StrictFIFO(context.log.wake)
        self._by_usage: dict[Key, ClusterQueue] | None = None
        """LocalQueues with usage-based admission, with their ClusterQueues; None if not computed since the last
        change."""
        self._arrivals: dict[str, tuple[int, Key, Hashable]] = {}
        """Arrival, LocalQueue and workload of waiting pods, by uid."""
        self._pending: dict[Key, dict[Hashable, set[str]]] = {}
        """The uids of waiting pods, by LocalQueue and workload."""
        self._heads: dict[str, Sequence[Mapping[Asset, int]]] = {}
        """Alternatives for the assets of all pods that would be admitted with a pod, by uid of that pod."""

    def outdate(self) -> None:
        """Drops cached answers that depend on queues, device classes and nodes."""
        self._by_usage = None
        self._heads.clear()

    def pending(self, local: Key) -> Mapping[Hashable, set[str]]:
        """Returns the waiting workloads of a LocalQueue, with the uids of their pods."""
        return self._pending.get(local, {})

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        queues = self._queues
        queue = queues.cluster_queue_of(pod)
        if queue is None:
            self._strict.remove(pod.uid)
            return None
        priority = queues.priority(pod)
        if queue.strict:
            self._strict.add(pod.uid, queue.name, (-priority, arrival), pod.group or pod.uid)
        else:
            self._strict.remove(pod.uid)
        self._remove_arrival(pod.uid)
        self._arrivals[pod.uid] = arrival, local_of(pod), pod.group or pod.uid
        self._pending.setdefault(local_of(pod), {}).setdefault(pod.group or pod.uid, set()).add(pod.uid)
        return Turn(self._order.turns(queues.tree.root(queue.name)), "/".join(local_of(pod)), priority)

    def forget(self, pod: Pod) -> None:
        self._remove_arrival(pod.uid)
        self._heads.pop(pod.uid, None)
        self._strict.remove(pod.uid)

    def let_pass(self, pod: Pod) -> None:
        self._strict.remove(pod.uid)

    def _remove_arrival(self, uid: str) -> None:
        """Removes the pod from the waiting pods of the LocalQueue under which it was added."""
        known = self._arrivals.pop(uid, None)
        if known is not None:
            _, local, workload = known
            waiting = self._pending[local]
            waiting[workload].discard(uid)
            if not waiting[workload]:
                del waiting[workload]

    def is_held_up(self, ask: Ask) -> bool:
        queue = self._queues.cluster_queue(ask.queue)
        return queue is not None and queue.strict and any(self._strict.is_held_up(pod.uid) for pod in ask.pods)

    def is_entitled(self, pod: Pod) -> bool:
        return True

    def _head(self, lane: str, pod: Pod) -> Head | None:
        queues, uid = self._queues, pod.uid
        queue = queues.cluster_queue_of(pod)
        if queue is None:
            return None
        ways = self._heads.get(uid)
        if ways is None:
            group = self._groups.unit(pod) if pod.group is not None else None
            pods = tuple(self._groups.waiting(group)) if group is not None else ()
            ask = Ask(pods or (pod,), queue.name, queues.charges.costs.wanted(queue.name, pods or (pod,)), 0)
            ways = self._heads[uid] = tuple(queues.ways(ask))
        score = self.usage.score(local_of(pod), self._weight(local_of(pod))) if queue.by_usage else 0.0
        return Head(
            lane,
            queue.name,
            (-queues.priority(pod), self._arrivals[uid][0] if uid in self._arrivals else 0),
            score,
            queues.flavors.first(queue, ways) if len(ways) != 1 else ways[0],
        )

    def _weight(self, local: Key) -> float:
        known = self._queues.local_queues().get(local)
        return known.weight if known is not None else 1.0

    def admitted(self, pod: Pod) -> None:
        queue = self._queues.cluster_queue_of(pod)
        if queue is not None and queue.by_usage:
            self.usage.admit(local_of(pod), self._queues.charges.held(pod), queue.half_life, queue.sampling)

    def sample(self, now: float) -> None:
        """Samples the usage of LocalQueues with usage-based admission whose sample is due."""
        if self._by_usage is None:
            self._by_usage = {
                key: queue
                for key, local in self._queues.local_queues().items()
                if (queue := self._queues.cluster_queue(local.cluster_queue)) is not None and queue.by_usage
            }
        if not self._by_usage:
            return
        due = {key: queue for key, queue in self._by_usage.items() if self.usage.is_due(key, now, queue.sampling)}
        if not due:
            return
        current: dict[Key, Counter[str]] = {}
        for pod in self._queues.charges.pods():
            current.setdefault(local_of(pod), Counter()).update(self._queues.charges.held(pod))
        for key, queue in due.items():
            self.usage.sample(key, current.get(key, {}), now, queue.half_life)
