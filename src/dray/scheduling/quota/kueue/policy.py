"""KueueQueues: Kueue's queues as a QueuePolicy: LocalQueues that lead to ClusterQueues, with flavors, in cohorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from dray.api import label_selectors
from dray.api.objects import Key, Object, key_of
from dray.api.suggestions import suggestion
from dray.api.times import seconds_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.extended import IMPLICIT, ResourceMap
from dray.scheduling.cluster.share_sizes import ShareSizes
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import PODS, Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.device_classes import CoveredClasses
from dray.scheduling.quota.kueue.fair_preemption import FairPreemption
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.kueue.objects import KueueObjects
from dray.scheduling.quota.kueue.order import Head, KueueOrder
from dray.scheduling.quota.kueue.preemption import Preemption
from dray.scheduling.quota.kueue.removals import KueueRemovals
from dray.scheduling.quota.kueue.strict import StrictFIFO
from dray.scheduling.quota.kueue.usage import LocalUsage
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_policy import Ask, Asset, DeviceUse, ReclaimTrial, RunningUnit
from dray.scheduling.quota.quota_waiters import QuotaWaiters
from dray.scheduling.quota.turns import Turn

_NO_COHORT: Final = "queue "


class KueueQueues(KueueObjects):
    label = kueue.QUEUE_LABEL
    kinds = frozenset(kueue.KINDS)

    def __init__(
        self,
        claims: ClaimAssumeCache,
        resources: ResourceMap,
        waiters: QuotaWaiters,
        groups: KnownGroups,
        share_sizes: ShareSizes,
    ) -> None:
        super().__init__(groups.topologies)
        self.served = False
        self._counts_capacity: bool | None = None
        self._classes = CoveredClasses(resources)
        self.charges: QueueCharges = QueueCharges(self, claims, waiters, share_sizes)
        self.usage = LocalUsage()
        self.order = KueueOrder(self.tree, self._head, self.is_fair)
        self._groups = groups
        self._resources = resources
        self._by_usage: dict[Key, ClusterQueue] | None = None
        """LocalQueues of which it counts what they used, with their queues."""
        self._strict = StrictFIFO(waiters.wake)
        self._arrivals: dict[str, tuple[int, Key, Hashable]] = {}
        """By pod uid, of those that wait; with their LocalQueue and workload."""
        self._pending: dict[Key, dict[Hashable, set[str]]] = {}
        """By LocalQueue and workload, the uids of pods that wait."""
        self._heads: dict[str, Mapping[Asset, int]] = {}
        """By pod uid, what would be let in with it."""

    # Objects

    def put(self, kind: str, document: Object) -> None:
        super().put(kind, document)
        self.served = True
        if kind == "LocalQueue":
            local = self._local_queues[key_of(document)]
            if (at := seconds_of(local.consumed_at)) is not None:
                self.usage.restore(key_of(document), local.consumed, at)
        self._changed()

    def remove(self, kind: str, document: Object) -> None:
        super().remove(kind, document)
        if kind == "LocalQueue":
            self.usage.remove(key_of(document))
        self._changed()
        # What was charged to a queue that is gone is not owed to one of the same name that comes later.
        self.charges.refresh()

    def _changed(self) -> None:
        self._by_usage = None
        self._counts_capacity = None
        self.outdate()

    def outdate(self) -> None:
        self._heads.clear()
        self._classes.clear()
        self.charges.outdate()

    def all(self) -> list[ClusterQueue]:
        """By name, with what their pods have up to date."""
        self.charges.refresh()
        return [self._cluster_queues[name] for name in sorted(self._cluster_queues)]

    def pending(self, local: Key) -> Mapping[Hashable, set[str]]:
        """The workloads that wait in a LocalQueue, with the uids of their pods."""
        return self._pending.get(local, {})

    # What is counted

    @property
    def counts_capacity(self) -> bool:
        if self._counts_capacity is None:
            groups = (group for queue in self._cluster_queues.values() for group in queue.groups)
            self._counts_capacity = any(f".{IMPLICIT}" in name for group in groups for name in group.covered)
        return self._counts_capacity

    def kept_for(self, pod: Pod) -> int:
        group = self._groups.of(pod) if pod.group is not None else None
        return group.kept if group is not None else 0

    def concerns(self, pod: Pod) -> bool:
        return kueue.QUEUE_LABEL in pod.labels

    def cluster_queue_of(self, pod: Pod) -> ClusterQueue | None:
        """A pod on a node stays in the queue that admitted it, whatever becomes of its LocalQueue."""
        return self._cluster_queues.get(pod.admitted_to(self.label)) or super().cluster_queue_of(pod)

    def queue_of(self, pod: Pod) -> str | None:
        queue = self.cluster_queue_of(pod)
        return queue.name if queue is not None else None

    def root(self, queue: str) -> str:
        return self.tree.root(queue)

    def roots(self, queue: str) -> tuple[str, ...]:
        return (self.tree.root(queue),)

    rivals = root

    def lacks(self, queue: str, reason: Reason) -> str:
        return self.tree.root(queue)

    def related(self, queue: str) -> tuple[str, ...]:
        return self.tree.related(queue)

    def requests(self, queue: str, pod: Pod) -> dict[str, int]:
        requests = {**pod.requirements.requests, PODS: 1}
        group_of = self._cluster_queues[queue].group_of
        return {name: amount for name, amount in requests.items() if group_of(name) is not None}

    def devices(self, queue: str, uses: Iterable[DeviceUse]) -> dict[str, int]:
        """By the names under which the queue counts their class, and their capacity."""
        found: Counter[str] = Counter()
        known = self._cluster_queues.get(queue)
        if known is None:
            return found
        for use in uses:
            names = self._resources.names(use.class_name)
            name = next((each for each in names if known.group_of(each) is not None), None)
            if name is not None:
                found[name] += use.number
            for dimension, amount in use.capacity.items():
                name = f"{dimension}.{IMPLICIT}{use.class_name}"
                if known.group_of(name) is not None:
                    found[name] += amount
        return found

    def excludes(self, queue: str, class_name: str) -> Reason | None:
        known = self._cluster_queues.get(queue)
        return self._classes.excludes(known, class_name) if known is not None else None

    def assets(self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int]) -> dict[Asset, int]:
        found = {}
        known = self._cluster_queues[queue]
        for name, amount in amounts.items():
            flavors = self.flavors.of(known, name)
            flavor = self.flavors.on(known, name, node) or (flavors[0] if flavors else "")
            found[Asset(flavor, name)] = amount
        return found

    reservation = assets

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        self.tree.charge(queue, assets, sign)

    # Whether there is room

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        name = pod.labels[kueue.QUEUE_LABEL]
        local = self._local_queues.get((pod.key[0], name))
        if local is None:
            return Reason(
                Code.QUEUE_NOT_FOUND, (f"LocalQueue {pod.key[0]}/{name}", self._similar_queue(pod.key[0], name))
            )
        queue = self._cluster_queues.get(local.cluster_queue)
        if queue is None:
            similar = suggestion(local.cluster_queue, self._cluster_queues)
            return Reason(Code.QUEUE_NOT_FOUND, (f"ClusterQueue {local.cluster_queue}", similar))
        if queue.stopped or local.stopped:
            return Reason(Code.QUEUE_STOPPED, (queue.name if queue.stopped else name,))
        return self.inactive(queue) or self._unfit(queue, pod, namespace)

    def _unfit(self, queue: ClusterQueue, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        if queue.namespaces is None or not label_selectors.from_object(queue.namespaces)(namespace):
            return Reason(Code.QUEUE_NAMESPACE, (queue.name, pod.key[0]))
        uncovered = (each for each in sorted(pod.requirements.requests) if queue.group_of(each) is None)
        if (resource := next(uncovered, None)) is not None:
            return Reason(Code.QUEUE_UNCOVERED, (queue.name, resource))
        if self._classes.limits(queue) and (reason := self.charges.excluded(queue.name, pod)) is not None:
            return reason
        chosen = pod.labels.get(kueue.PRIORITY_LABEL)
        if chosen and chosen not in self._priorities:
            similar = suggestion(chosen, self._priorities)
            return Reason(Code.QUEUE_NOT_FOUND, (f"WorkloadPriorityClass {chosen}", similar))
        return None

    def _similar_queue(self, namespace: str, name: str) -> str:
        return suggestion(name, (each for place, each in self._local_queues if place == namespace))

    def is_uniform(self, queue: str) -> bool:
        return self.flavors.is_uniform(self._cluster_queues[queue])

    def short(self, ask: Ask) -> Reason | None:
        queue = self._cluster_queues[ask.queue]
        if not self.charges.kept:
            return self.flavors.short(queue, ask)
        with self.charges.kept.lent(ask.queue, ask.pod.group):
            return self.flavors.short(queue, ask)

    def gives_way(self, queue: str) -> bool:
        """Where there is one flavor for all, whoever may reclaim lacks quota."""
        queues = (self._cluster_queues[each] for each in self.related(queue))
        if all(map(self.flavors.is_uniform, queues)):
            return False
        return any(self.tree.is_borrowing(queue, asset) for asset in self.tree.node(queue).used)

    def may_remove(self, ask: Ask, queue: str, priority: int) -> bool:
        mine = self._cluster_queues.get(ask.queue)
        if mine is None or queue not in self._cluster_queues:
            return False
        if queue == ask.queue:
            newer = mine.preempts == "LowerOrNewerEqualPriority" and priority == ask.priority
            return mine.preempts != "Never" and (priority < ask.priority or newer)
        if mine.reclaims == "Never" or (mine.reclaims == "LowerPriority" and priority >= ask.priority):
            return False
        return any(self.tree.is_borrowing(queue, asset) for asset in self.tree.node(queue).used)

    def is_hopeful(self, queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
        known = self._cluster_queues.get(queue)
        if known is None or known.borrows != "Never" or self.is_fair(self.root(queue)):
            return True
        for name, amount in wanted:
            for flavor in self.flavors.of(known, name):
                asset = Asset(flavor, name)
                own = 0
                if known.preempts == "LowerPriority":
                    own = self.charges.below(queue, priority, asset)
                elif known.preempts != "Never":
                    own = self.tree.used(queue, asset)
                is_its_own = not self.tree.is_borrowing(queue, asset, amount - own)
                may_come_back = known.reclaims != "Never" and (is_its_own or self.tree.is_owed(queue, asset, amount))
                if may_come_back or amount <= self.tree.available(queue, asset) + own:
                    break
            else:
                return False
        return True

    def has_room(self, queue: str, kept: Mapping[Asset, int]) -> bool:
        known = self._cluster_queues.get(queue)
        if known is None:
            return True
        self.tree.charge(queue, kept, -1)
        try:
            return all(
                any(self.tree.available(queue, Asset(each, name)) >= amount for each in self.flavors.of(known, name))
                for (_, name), amount in kept.items()
            )
        finally:
            self.tree.charge(queue, kept, 1)

    def short_on(self, ask: Ask, node: Node) -> Status | None:
        queue = self._cluster_queues[ask.queue]
        if not self.charges.kept:
            return self.flavors.short_on(queue, ask, node)
        with self.charges.kept.lent(ask.queue, ask.pod.group):
            return self.flavors.short_on(queue, ask, node)

    def rank(self, ask: Ask, node: Node) -> int:
        return self.flavors.rank(self._cluster_queues[ask.queue], ask, node)

    def flavors_on(self, ask: Ask, node: Node) -> tuple[str | None, ...]:
        queue = self._cluster_queues[ask.queue]
        return tuple([self.flavors.on(queue, name, node) for name in ask.wanted])

    # Order

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """The pod has its turn by priority, then by arrival, in a queue where the first holds up the others."""
        queue = self.cluster_queue_of(pod)
        if queue is None or not self.served:
            self._strict.leave(pod.uid)
            return None
        priority = self.priority(pod)
        if queue.strict:
            self._strict.join(pod.uid, queue.name, (-priority, arrival), pod.group or pod.uid)
        else:
            self._strict.leave(pod.uid)
        self._settle(pod.uid)
        self._arrivals[pod.uid] = arrival, local_of(pod), pod.group or pod.uid
        self._pending.setdefault(local_of(pod), {}).setdefault(pod.group or pod.uid, set()).add(pod.uid)
        return Turn(self.order.turns(self.root(queue.name)), "/".join(local_of(pod)), priority)

    def forget(self, pod: Pod) -> None:
        self._settle(pod.uid)
        self._heads.pop(pod.uid, None)
        self._strict.leave(pod.uid)

    def let_pass(self, pod: Pod) -> None:
        self._strict.leave(pod.uid)

    def _settle(self, uid: str) -> None:
        """The pod is not among those that wait in a LocalQueue, as it said last."""
        known = self._arrivals.pop(uid, None)
        if known is not None:
            _, local, workload = known
            waiting = self._pending[local]
            waiting[workload].discard(uid)
            if not waiting[workload]:
                del waiting[workload]

    def is_held_up(self, ask: Ask) -> bool:
        return self._cluster_queues[ask.queue].strict and any(self._strict.is_held_up(each.uid) for each in ask.pods)

    def _head(self, lane: str, pod: Pod) -> Head | None:
        queue = self.cluster_queue_of(pod)
        if queue is None:
            return None
        assets = self._heads.get(pod.uid)
        if assets is None:
            group = self._groups.unit(pod) if pod.group is not None else None
            pods = tuple(self._groups.waiting(group)) if group is not None else ()
            ask = Ask(pods or (pod,), queue.name, self.charges.wanted(queue.name, pods or (pod,)), 0)
            assets = self._heads[pod.uid] = next(self.flavors.ways(queue, ask), {})
        score = self.usage.score(local_of(pod), self._weight(local_of(pod))) if queue.by_usage else 0.0
        return Head(
            lane,
            queue.name,
            (-self.priority(pod), self._arrivals[pod.uid][0] if pod.uid in self._arrivals else 0),
            score,
            assets,
        )

    def _weight(self, local: Key) -> float:
        return self._local_queues[local].weight if local in self._local_queues else 1.0

    def admitted(self, pod: Pod) -> None:
        """The pod was let in."""
        queue = self.cluster_queue_of(pod)
        if queue is not None and queue.by_usage:
            self.usage.admit(local_of(pod), self.charges.held(pod), queue.half_life, queue.sampling)

    def sample(self, now: float) -> None:
        """What LocalQueues use is looked at, where that counts and it is time."""
        if self._by_usage is None:
            queues = self._cluster_queues
            self._by_usage = {
                key: queue
                for key, local in self._local_queues.items()
                if (queue := queues.get(local.cluster_queue)) is not None and queue.by_usage
            }
        if not self._by_usage:
            return
        due = {key: queue for key, queue in self._by_usage.items() if self.usage.is_due(key, now, queue.sampling)}
        if not due:
            return
        current: dict[Key, Counter[str]] = {}
        for pod in self.charges.pods():
            current.setdefault(local_of(pod), Counter()).update(self.charges.held(pod))
        for key, queue in due.items():
            self.usage.sample(key, current.get(key, {}), now, queue.half_life)

    # Reclaim

    def removals(self, ask: Ask) -> KueueRemovals:
        return KueueRemovals(self, self._cluster_queues, ask)

    def may_reclaim(self, ask: Ask) -> bool:
        queue = self._cluster_queues[ask.queue]
        if queue.reclaims == "Never" and queue.preempts == "Never":
            return False
        return self.is_hopeful(queue.name, ask.priority, ask.wanted.items())

    def reclaim(self, ask: Ask, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        queue = self._cluster_queues[ask.queue]
        root = self.root(queue.name)
        for assets in self.flavors.ways(queue, ask):
            if all(self.tree.available(queue.name, asset) >= amount for asset, amount in assets.items()):
                # It has what it takes, and lacks only a place.
                continue
            preemption = Preemption(self.tree, self._cluster_queues, ask, assets, trial)
            fair = self.is_fair(root) and not root.startswith(_NO_COHORT)
            found = FairPreemption(preemption, self.strategies(root)).find() if fair else preemption.find()
            if found is not None:
                return found, assets
        return None

    def drained(self) -> list[tuple[Pod, str]]:
        """Pods on nodes that have to go since their queue is stopped, and its title."""
        found = []
        for pod in self.charges.pods() if self.drains() else ():
            local = self._local_queues.get(local_of(pod))
            queue = self.cluster_queue_of(pod)
            if queue is not None and queue.drains:
                found.append((pod, f"ClusterQueue {queue.name}"))
            elif local is not None and local.drains:
                found.append((pod, f"LocalQueue {'/'.join(local_of(pod))}"))
        return found


def local_of(pod: Pod) -> Key:
    """The LocalQueue that the pod names."""
    return pod.key[0], pod.labels.get(kueue.QUEUE_LABEL, "")
