"""KueueQueues: the QueuePolicy of Kueue: LocalQueues that refer to ClusterQueues with flavors, in cohorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Final

from dray.api import label_selectors
from dray.api.objects import Object, key_of
from dray.api.suggestions import suggestion
from dray.api.times import seconds_of
from dray.scheduling.cluster.extended import IMPLICIT
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import PODS, Pod, Requirements
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.quota.claim_costs import ClaimCosts
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.device_classes import CoveredClasses
from dray.scheduling.quota.kueue.evictions import KueueEvictions
from dray.scheduling.quota.kueue.flavors import KueueNodeFlavors
from dray.scheduling.quota.kueue.kinds import ClusterQueue, local_of
from dray.scheduling.quota.kueue.objects import KueueObjects
from dray.scheduling.quota.kueue.waiting import KueueWaiting
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import Ask, Asset, DeviceUse, Member, Queue

# The maximum number of combinations of flavors of several kinds of pods that are considered.
_MOST_WAYS: Final = 32


class KueueQueues(KueueObjects):
    label = kueue.QUEUE_LABEL

    def __init__(self, context: QueueContext) -> None:
        super().__init__(context.groups.topologies, context.journal)
        self.stores = {kind: (partial(self.put, kind), partial(self.remove, kind)) for kind in kueue.KINDS}
        self._counts_capacity: bool | None = None
        self._classes = CoveredClasses(context.resources)
        self._resources = context.resources
        self._share_sizes = context.capacity.share_sizes
        self._queues: dict[str, Queue] = {}
        """Cached answers of `queue`, dropped when objects change. Each attempt asks several times."""
        self._inactive: dict[str, Reason | None] = {}
        """Cached answers of `inactive`, likewise. Pods with reclaim take 1 % fewer function calls."""
        self.node_flavors = KueueNodeFlavors(self.flavors, self._cluster_queues)
        self.order = KueueWaiting(self, context)
        costs = ClaimCosts(self, context.claims, share_size=self._share_size, excludes=self._excludes)
        self.charges: QueueCharges = QueueCharges(
            self, context, costs=costs, keeping=context.groups, outdated=self._outdated
        )

    # Objects

    def put(self, kind: str, document: Object) -> None:
        super().put(kind, document)
        if kind == "LocalQueue":
            local = self._local_queues[key_of(document)]
            if (at := seconds_of(local.consumed_at)) is not None:
                self.order.usage.restore(key_of(document), local.consumed, at)
        self._changed()

    def remove(self, kind: str, document: Object) -> None:
        super().remove(kind, document)
        if kind == "LocalQueue":
            self.order.usage.remove(key_of(document))
        self._changed()
        # Charges to a deleted queue are not transferred to a later queue of the same name.
        self.charges.refresh()

    def _changed(self) -> None:
        self._counts_capacity = None
        self.charges.outdate()

    def _outdated(self) -> None:
        self._queues.clear()
        self._inactive.clear()
        self._classes.clear()
        self.order.outdate()

    def all(self) -> list[ClusterQueue]:
        """Returns the ClusterQueues sorted by name, after their usage was brought up to date."""
        self.charges.refresh()
        return [self._cluster_queues[name] for name in sorted(self._cluster_queues)]

    # Amounts

    @property
    def counts_capacity(self) -> bool:
        """Whether at least one queue has quota for the capacity of devices."""
        if self._counts_capacity is None:
            groups = (group for queue in self._cluster_queues.values() for group in queue.groups)
            self._counts_capacity = any(f".{IMPLICIT}" in name for group in groups for name in group.covered)
        return self._counts_capacity

    def _share_size(self, request: Object) -> Mapping[str, int]:
        return self._share_sizes.of(request) if self.counts_capacity else {}

    def _excludes(self, queue: str, class_name: str) -> Reason | None:
        known = self._cluster_queues.get(queue)
        return self._classes.excludes(known, class_name) if known is not None else None

    def member(self, pod: Pod) -> Member | None:
        if kueue.QUEUE_LABEL not in pod.labels:
            return None
        queue = self.cluster_queue_of(pod)
        return Member(queue.name if queue is not None else "", self.priority(pod))

    def queue(self, name: str) -> Queue:
        known = self._queues.get(name)
        if known is None:
            root, queue = self.tree.root(name), self._cluster_queues.get(name)
            uniform = queue is None or self.flavors.is_uniform(queue)
            known = Queue(name, root, {name: root}, self.tree.related(name), root, uniform)
            self._queues[name] = known
        return known

    def amounts(self, queue: str, pod: Pod | None, devices: Iterable[DeviceUse]) -> dict[str, int]:
        """Counts devices by the names under which the queue counts their class, and their capacity."""
        found: dict[str, int] = {}
        known = self._cluster_queues.get(queue)
        if known is None:
            return found
        covering = known.covering
        if pod is not None:
            found = {name: amount for name, amount in pod.requirements.requests.items() if name in covering}
            if PODS in covering:
                found[PODS] = 1
        for use in devices:
            names = self._resources.names(use.class_name)
            for name in names:
                if name in covering:
                    found[name] = found.get(name, 0) + use.number
                    break
            for dimension, amount in use.capacity.items():
                name = f"{dimension}.{IMPLICIT}{use.class_name}"
                if name in covering:
                    found[name] = found.get(name, 0) + amount
        return found

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        self.tree.charge(queue, assets, sign)

    # Quota

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
        if queue.name not in self._inactive:
            self._inactive[queue.name] = self.inactive(queue)
        return self._inactive[queue.name] or self._unfit(queue, pod, namespace)

    def _unfit(self, queue: ClusterQueue, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        selector = queue.namespaces
        # An empty selector selects all namespaces.
        if selector is None or (selector and not label_selectors.from_object(selector)(namespace)):
            return Reason(Code.QUEUE_NAMESPACE, (queue.name, pod.key[0]))
        if uncovered := pod.requirements.requests.keys() - queue.covering.keys():
            return Reason(Code.QUEUE_UNCOVERED, (queue.name, min(uncovered)))
        if (reason := self.charges.costs.excluded(queue.name, pod)) is not None:
            return reason
        chosen = pod.labels.get(kueue.PRIORITY_LABEL)
        if chosen and chosen not in self._priorities:
            similar = suggestion(chosen, self._priorities)
            return Reason(Code.QUEUE_NOT_FOUND, (f"WorkloadPriorityClass {chosen}", similar))
        return None

    def _similar_queue(self, namespace: str, name: str) -> str:
        return suggestion(name, (known for place, known in self._local_queues if place == namespace))

    def short(self, ask: Ask, node: Node | None = None) -> Reason | None:
        if not self.charges.kept:
            return self._short(ask, node)
        with self.charges.kept.free_for(ask.queue, ask.pod.group):
            return self._short(ask, node)

    def _short(self, ask: Ask, node: Node | None) -> Reason | None:
        queue = self._cluster_queues[ask.queue]
        if node is not None:
            return self.flavors.short_on(queue, ask, node)
        pod_sets = self.pod_sets(ask)
        if len(pod_sets) == 1:
            return self.flavors.short(queue, ask)
        ways = list(self.ways(ask))
        if any(self.flavors.has_room(queue, assets) for assets in ways):
            return None
        # One kind of pods lacks quota by itself, or all kinds together lack quota in their first flavors.
        alone = (self.flavors.short(queue, pod_set) for pod_set in pod_sets)
        together = self.flavors.short_of(queue, ways[0]) if ways else self.flavors.short(queue, ask)
        return next(filter(None, alone), together)

    def pod_sets(self, ask: Ask) -> list[Ask]:
        """Splits what is asked for a gang by kinds of pods: pods with the same requirements use one flavor."""
        if len(ask.pods) == 1:
            return [ask]
        kinds: dict[Requirements, list[Pod]] = {}
        for pod in ask.pods:
            kinds.setdefault(pod.requirements, []).append(pod)
        if len(kinds) <= 1 or self.flavors.is_uniform(self._cluster_queues[ask.queue]):
            return [ask]
        asks = [
            replace(ask, pods=tuple(pods), wanted=self.charges.costs.wanted(ask.queue, tuple(pods)))
            for pods in kinds.values()
        ]
        total: Counter[str] = Counter()
        for pod_set in asks:
            total.update(pod_set.wanted)
        # The kinds share claims, or less is asked than for all pods: the amounts cannot be split.
        return asks if total == Counter(ask.wanted) else [ask]

    def ways(self, ask: Ask) -> Iterator[dict[Asset, int]]:
        """Yields the assets that the pods can be charged to, in the order of the queue's flavors. Each kind of pods may
        use another flavor."""
        queue, pod_sets = self._cluster_queues[ask.queue], self.pod_sets(ask)
        if len(pod_sets) == 1:
            yield from self.flavors.ways(queue, ask)
            return
        for chosen in islice(product(*(tuple(self.flavors.ways(queue, pod_set)) for pod_set in pod_sets)), _MOST_WAYS):
            assets: Counter[Asset] = Counter()
            for way in chosen:
                assets.update(way)
            if self.flavors.could_have(queue, assets):
                yield dict(assets)

    def evictions(self, ask: Ask) -> KueueEvictions:
        return KueueEvictions(self, ask)

    def drained(self) -> list[tuple[Pod, str]]:
        """Returns the pods on nodes that are evicted because their queue is stopped, each with the title of the
        queue."""
        found = []
        for pod in self.charges.pods() if self.drains() else ():
            local = self._local_queues.get(local_of(pod))
            queue = self.cluster_queue_of(pod)
            if queue is not None and queue.drains:
                found.append((pod, f"ClusterQueue {queue.name}"))
            elif local is not None and local.drains:
                found.append((pod, f"LocalQueue {'/'.join(local_of(pod))}"))
        return found
