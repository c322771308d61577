"""KaiQueues: the QueuePolicy of KAI: a tree of queues with quota, limit and weight for GPUs, cpu and memory.

A pod may be placed on any node, as long as its queue and the queues above it stay within their limits. Pods that are
not preemptible also stay within quota. Quota and weight decide which queue is next (`order`), and which pods may be
evicted for which (`evictions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object, labels_of, mapping
from dray.api.suggestions import suggestion
from dray.api.times import seconds_of
from dray.scheduling.cluster.cluster_capacity import GPU, gpu_requests, is_gpu_class
from dray.scheduling.model.group import Group
from dray.scheduling.model.journal import Changes
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.quota.defaults import OneFlavor
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kai.queue import NON_PREEMPTIBLE_FROM, PREEMPTIBILITY, QUEUE_LABEL
from dray.scheduling.quota.kai.removals import KaiEvictions
from dray.scheduling.quota.kai.share_tree import ShareNode, ShareTree
from dray.scheduling.quota.kai.waiting import KaiWaiting
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import Ask, Asset, DeviceUse, Member, Queue

_ALL: Final = ""
_KEPT: Final = "non-preemptible"
_RESERVED: Final = "reserved"
# KAI has no flavors. These names stand in place of a flavor; the values are the attributes of ShareNode that count it.
_COUNTS: Final = {_ALL: "held", _KEPT: "kept", _RESERVED: "reserved"}


class KaiQueues:
    label = QUEUE_LABEL

    def __init__(self, context: QueueContext) -> None:
        self.stores = {kai_queue.KIND: (self.put, self.remove)}
        self.tree: ShareTree = ShareTree()
        self.charges = QueueCharges(self, context, outdated=self._outdated, evicting=self._evicting)
        self.node_flavors = KaiFlavors(self)
        self.order = KaiWaiting(self)
        self._resources = context.resources
        self._groups = context.groups
        self._capacity = context.capacity
        self._queues: dict[str, Queue] = {}
        """Cached answers of `queue`, dropped when objects change. Each attempt asks several times."""
        self._trees: dict[str, tuple[str, ...]] = {}
        """The names of all queues of a tree, by the name of its root; dropped when objects change."""
        self._outside: Counter[str] = Counter()
        """The amounts that pods in no queue hold."""
        self._shared: tuple[Mapping[str, float], Counter[str]] = {}, Counter()
        """The capacity, and the amounts that pods in no queue hold, from which the shares were computed."""
        self._evicted: dict[str, tuple[str, dict[str, int]]] = {}
        """The queue of each pod that is being evicted, and the amounts that the pod holds, by uid."""

    # Objects

    def put(self, document: Object) -> None:
        self.tree.put(kai_queue.read(document))
        self.charges.outdate()

    def remove(self, document: Object) -> None:
        self.tree.remove(document["metadata"]["name"])
        self.charges.outdate()

    def _outdated(self) -> None:
        self._queues.clear()
        self._trees.clear()

    def shares(self) -> ShareTree:
        """Returns the tree with shares that are up to date."""
        self.charges.refresh()
        capacity = self._capacity.amounts()
        if capacity is not self._shared[0] or self._outside is not self._shared[1]:
            self._shared = capacity, self._outside
            held = self._outside
            self.tree.resize({name: max(0.0, amount - held.get(name, 0)) for name, amount in capacity.items()})
        self.tree.refresh()
        return self.tree

    def count_outside(self, nodes: Iterable[Node]) -> None:
        """Counts the amounts that pods in no queue hold, which cannot be shared. The cost grows with all pods, so the
        caller does this at intervals."""
        found: Counter[str] = Counter()
        claims: dict[ClaimKey, dict[str, int]] = {}
        for node in nodes:
            for pod in node.pods.values():
                if not pod.is_placeholder and not self.charged_to(pod):
                    found.update(self.amounts("", pod, ()))
                    claims.update(self.charges.costs.claims_wanted("", pod))
        for amounts in claims.values():
            found.update(amounts)
        if found != self._outside:
            self._outside = found

    # Amounts

    def name_of(self, pod: Pod) -> str:
        """Returns the queue that admitted the pod, if it is on a node; otherwise the queue of its group, or its own."""
        if pod.admitted and (admitted := pod.admitted_to(self.label)) and self.tree.path(admitted):
            return admitted
        group = self._groups.of(pod) if pod.group is not None else None
        own = pod.labels.get(QUEUE_LABEL, "")
        if group is None:
            return own
        # Groups of other APIs name queues of other systems.
        named = group.queue if group.key.api == kai_queue.API_GROUP else labels_of(group.document).get(QUEUE_LABEL, "")
        return named or own

    def queue_of(self, pod: Pod) -> str | None:
        """Returns the queue of the pod; None if the pod names no queue that exists."""
        name = self.name_of(pod)
        return name if name and self.tree.path(name) else None

    def member(self, pod: Pod) -> Member | None:
        name = self.name_of(pod)
        return Member(name if self.tree.path(name) else "", pod.priority) if name else None

    def queue(self, name: str) -> Queue:
        """Describes a queue. Pods of all queues compete for nodes, since shares are divided among all trees."""
        known = self._queues.get(name)
        if known is None:
            path = self.tree.path(name)
            root = f"Queue {path[-1].name if path else name}"
            limits = {node.name: f"Queue {node.name}" for node in path}
            # A queue above all others is on no side when pods of one queue are evicted for pods of another.
            sides = path[:-1] if len(self.tree.roots) == 1 else path
            known = self._queues[name] = Queue(
                name,
                root,
                limits,
                self._below(path[-1].name) if path else (),
                "",
                entitled_by=tuple(limits[node.name] for node in sides),
            )
        return known

    def _below(self, top: str) -> tuple[str, ...]:
        """Returns the names of a queue without a parent and of all queues below it."""
        if not self._trees:
            names = [(path[-1].name, name) for name in self.tree.names() if (path := self.tree.path(name))]
            found: dict[str, list[str]] = {}
            for root, name in names:
                found.setdefault(root, []).append(name)
            self._trees.update((root, tuple(tree)) for root, tree in found.items())
        return self._trees[top]

    def amounts(self, queue: str, pod: Pod | None, devices: Iterable[DeviceUse]) -> dict[str, int]:
        found: dict[str, int] = {}
        gpus = sum(use.number for use in devices if is_gpu_class(use.class_name, self._resources))
        if pod is not None:
            requests = pod.requirements.requests
            found = {name: requests[name] for name in ("cpu", "memory") if name in requests}
            gpus += gpu_requests(requests) if pod.requirements.extended else 0
        return {**found, GPU: gpus} if gpus else found

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        found: dict[str, dict[str, int]] = {}
        for asset, amount in assets.items():
            found.setdefault(_COUNTS[asset.flavor], {})[asset.resource] = amount
        for which, amounts in found.items():
            self.tree.count(queue, which, amounts, sign)

    def _evicting(self, pod: Pod, sign: int) -> None:
        """Counts the amounts of a pod that is being evicted, until the pod has ended or its eviction failed."""
        if sign > 0:
            self._evicted[pod.uid] = self.charged_to(pod), self.held_by(pod)
        if pod.uid in self._evicted:
            queue, held = self._evicted[pod.uid] if sign > 0 else self._evicted.pop(pod.uid)
            self.tree.count(queue, "evicting", held, sign)

    def without_evicted(self) -> Changes:
        """Returns a trial, for a `with` statement, in which pods that are being evicted do not count."""
        trial = self.charges.trial()
        self._count_evicted(-1)
        trial.record(("evicted", self.label), partial(self._count_evicted, 1))
        return trial

    def _count_evicted(self, sign: int) -> None:
        for queue, held in self._evicted.values():
            self.tree.count(queue, "evicting", held, sign)

    def charged_to(self, pod: Pod) -> str:
        """Returns the queue that a pod on a node is charged to; empty if the pod is in no queue."""
        charge = self.charges.of(pod.uid)
        return charge.queue if charge is not None else ""

    def held_by(self, pod: Pod) -> dict[str, int]:
        """Returns the amounts that a pod holds and a queue is charged for."""
        return {asset.resource: number for asset, number in self.charges.assets_of(pod).items() if not asset.flavor}

    def surplus_of(self, pods: Iterable[Pod]) -> set[str]:
        """Returns the uids of pods beyond the minimum of their elastic groups."""
        groups = {group.key: group for pod in pods if pod.group is not None and (group := self._groups.of(pod))}
        return {uid for group in groups.values() for uid in self._groups.surplus(group)}

    def is_preemptible(self, pod: Pod) -> bool:
        group = self._groups.of(pod) if pod.group is not None else None
        if group is not None and group.preemptible is not None:
            return group.preemptible
        value = pod.labels.get(PREEMPTIBILITY)
        if value in ("preemptible", "non-preemptible"):
            return value == "preemptible"
        return pod.priority < NON_PREEMPTIBLE_FROM

    # Quota

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        name = self.name_of(pod)
        node = self.tree.get(name)
        if node is None:
            return Reason(Code.QUEUE_NOT_FOUND, (f"Queue {name}", suggestion(name, self.tree.names())))
        if not node.queue.parent:
            return Reason(Code.QUEUE_WITHOUT_PARENT, (name,))
        if not self.tree.path(name):
            return Reason(Code.QUEUE_PARENTS, (name,))
        return Reason(Code.QUEUE_NOT_LEAF, (name,)) if node.children else None

    def short(self, ask: Ask, node: Node | None = None) -> Reason | None:
        for queue in self.tree.path(ask.queue):
            for name, amount in ask.wanted.items():
                if amount and queue.taken(name) + amount > queue.limit(name):
                    return _shortage(Code.OVER_LIMIT, queue, name, amount, queue.taken(name), queue.limit(name))
        if self.is_preemptible(ask.pod):
            return None
        for queue in self.tree.path(ask.queue):
            for name, amount in ask.wanted.items():
                kept, quota = queue.kept.get(name, 0.0), queue.quota(name)
                if amount and kept + amount > quota:
                    return _shortage(Code.NON_PREEMPTIBLE_OVER_QUOTA, queue, name, amount, kept, quota)
        return None

    def gives_way(self, queue: str) -> bool:
        """Whether the queue or a queue above it has more than its quota or share, so that its pods may be evicted for
        others that have quota but fit on no node."""
        self.shares()
        return any(
            node.taken(name) > min(node.allocatable(name), node.quota(name))
            for node in self.tree.path(queue)
            for name in kai_queue.RESOURCES
        )

    # Evictions

    def evictions(self, ask: Ask) -> KaiEvictions:
        return KaiEvictions(self, ask)

    def wanted_next(self, pod: Pod) -> Mapping[str, int] | None:
        """Returns the amounts of the pods of an elastic group that are placed next, no more than its minimum; None if
        the pod is in no elastic group."""
        group = self._groups.of(pod) if pod.group is not None else None
        if group is None or not self._groups.is_elastic(group):
            return None
        root, queue = self._groups.root(group), self.queue_of(pod)
        if not isinstance(root, Group) or queue is None:
            return None
        return self.charges.costs.wanted(queue, self._groups.next_to_place(root, self._groups.waiting(root)))

    def not_before(self, pod: Pod) -> float:
        """Returns the time before which no pod is evicted for the pod; 0 if it has no preemption delay."""
        group = self._groups.of(pod) if pod.group is not None else None
        document = group.document if group is not None else pod.document
        delay = delay_of(pod, document)
        created = seconds_of(mapping(document.get("metadata")).get("creationTimestamp")) if delay else None
        return created + delay if created is not None else 0.0

    def may_reclaim(self, ask: Ask) -> bool:
        """Whether other pods may be evicted for the pods. This is a quick check, of which only False is certain."""
        self.shares()
        entitled = self.tree.path(ask.queue)[0].within_share(ask.wanted)
        return entitled or any(charge.pod.priority < ask.priority for charge in self.charges.within(ask.queue))


class KaiFlavors(OneFlavor):
    """Charges pods for the amounts that they hold. Non-preemptible pods are charged a second time, for the check that
    they stay within quota."""

    def __init__(self, queues: KaiQueues) -> None:
        self._queues = queues

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        return self.reserved(pod, amounts) if reserved else self._assets(pod, amounts, _ALL)

    def reserved(self, pod: Pod, amounts: Mapping[str, int]) -> dict[Asset, int]:
        """Returns the assets to charge for amounts that are reserved for a pod."""
        return self._assets(pod, amounts, _RESERVED)

    def _assets(self, pod: Pod, amounts: Mapping[str, int], flavor: str) -> dict[Asset, int]:
        flavors = (flavor,) if self._queues.is_preemptible(pod) else (flavor, _KEPT)
        return {Asset(flavor, name): amount for flavor in flavors for name, amount in amounts.items()}


def _shortage(code: Code, node: ShareNode, resource: str, wanted: float, held: float, most: float) -> Reason:
    return Reason(code, (node.name, resource, *(f"{number:.15g}" for number in (wanted, held, most))))


def delay_of(pod: Pod, document: Object) -> float:
    """Returns the number of seconds after the creation of the pod or its group in which no pod is evicted for it."""
    delay = mapping(document.get("spec")).get("preemptionDelay") or pod.labels.get(kai_queue.PREEMPTION_DELAY)
    return kai_queue.seconds(delay) or 0.0
