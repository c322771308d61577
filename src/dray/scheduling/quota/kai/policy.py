"""KaiQueues: the queues of KAI as a QueuePolicy: a tree with quota, limit and weight for GPUs, cpu and memory.

A pod may go wherever there is room, as long as no queue above it exceeds its limit; pods that are not preemptible also
stay within quota. Quota and weight decide whose turn it is (`first`), and who may be removed for whom (`removals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object, labels_of, mapping
from dray.api.suggestions import suggestion
from dray.api.times import seconds_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import GPU, ClusterCapacity, gpu_requests, is_gpu_class
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kai.order import TurnOrder
from dray.scheduling.quota.kai.queue import NON_PREEMPTIBLE_FROM, PREEMPTIBILITY, QUEUE_LABEL
from dray.scheduling.quota.kai.removals import KaiRemovals, fewest
from dray.scheduling.quota.kai.share_tree import ShareNode, ShareTree
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.queue_charges import QueueCharges
from dray.scheduling.quota.queue_demand import QueueDemand
from dray.scheduling.quota.queue_policy import Ask, Asset, DeviceUse, ReclaimTrial, RunningUnit
from dray.scheduling.quota.quota_waiters import QuotaWaiters
from dray.scheduling.quota.turns import Turn, Turns

_ALL: Final = ""
_KEPT: Final = "non-preemptible"
_RESERVED: Final = "reserved"
# In place of the flavor of an asset, and what of a queue counts it.
_COUNTS: Final = {_ALL: "held", _KEPT: "kept", _RESERVED: "reserved"}


class KaiQueues:
    label = QUEUE_LABEL
    kinds = frozenset((kai_queue.KIND,))
    counts_capacity = False

    def __init__(
        self,
        claims: ClaimAssumeCache,
        resources: ResourceMap,
        waiters: QuotaWaiters,
        groups: KnownGroups,
        capacity: ClusterCapacity,
    ) -> None:
        self.served = False
        self.tree: ShareTree = ShareTree()
        self.charges = QueueCharges(self, claims, waiters)
        self._resources = resources
        self._groups = groups
        self._capacity = capacity
        self._demand = QueueDemand(lambda queue, amounts, sign: self.tree.count(queue, "waiting", amounts, sign))
        self._order = TurnOrder(self.tree)
        self._turns = Turns(self.first)
        self._outside: Counter[str] = Counter()
        """What pods hold that are in no queue."""
        self._shared: tuple[Mapping[str, float], Counter[str]] = {}, Counter()
        """What there is, and what of it is held outside, as the shares were made from."""
        self._leaving: dict[str, tuple[str, dict[str, int]]] = {}
        """By pod uid, what pods hold that were asked to go, and of which queue."""

    # Objects

    def put(self, kind: str, document: Object) -> None:
        self.served = True
        self.tree.put(kai_queue.read(document))
        self.outdate()

    def remove(self, kind: str, document: Object) -> None:
        self.tree.remove(document["metadata"]["name"])
        self.outdate()

    def outdate(self) -> None:
        self.charges.outdate()

    def shares(self) -> ShareTree:
        """With all that its shares are made from up to date."""
        self.charges.refresh()
        capacity = self._capacity.amounts()
        if capacity is not self._shared[0] or self._outside is not self._shared[1]:
            self._shared = capacity, self._outside
            self.tree.capacity = {
                name: max(0.0, amount - self._outside.get(name, 0)) for name, amount in capacity.items()
            }
            self.tree.outdate()
        self.tree.refresh()
        return self.tree

    def count_outside(self, nodes: Iterable[Node]) -> None:
        """What pods hold that are in no queue is not there to be shared. All are looked at: to be done now and then."""
        found: Counter[str] = Counter()
        claims: dict[ClaimKey, dict[str, int]] = {}
        for node in nodes:
            for pod in node.pods.values():
                if not pod.ghost and not self.charged_to(pod):
                    found.update(self.requests("", pod))
                    claims.update(self.charges.claims_wanted("", pod))
        for amounts in claims.values():
            found.update(amounts)
        if found != self._outside:
            self._outside = found

    # What is counted

    def name_of(self, pod: Pod) -> str:
        """The queue that admitted it where it is on a node; else the one of its group, or its own."""
        admitted = pod.admitted_to(self.label)
        if admitted and self.tree.path(admitted):
            return admitted
        group = self._groups.of(pod) if pod.group is not None else None
        own = pod.labels.get(QUEUE_LABEL, "")
        if group is None:
            return own
        # Groups of others name queues of others.
        named = group.queue if group.key.api == kai_queue.API_GROUP else labels_of(group.document).get(QUEUE_LABEL, "")
        return named or own

    def kept_for(self, pod: Pod) -> int:
        return 0

    def concerns(self, pod: Pod) -> bool:
        return bool(self.name_of(pod))

    def queue_of(self, pod: Pod) -> str | None:
        name = self.name_of(pod)
        return name if name and self.tree.path(name) else None

    def root(self, queue: str) -> str:
        path = self.tree.path(queue)
        return f"Queue {path[-1].name}" if path else f"Queue {queue}"

    def roots(self, queue: str) -> tuple[str, ...]:
        """The queue and those above it: each has a limit."""
        return tuple(f"Queue {node.name}" for node in self.tree.path(queue))

    def rivals(self, queue: str) -> str:
        """Shares are divided among all queues, those without a parent too."""
        return ""

    def lacks(self, queue: str, reason: Reason) -> str:
        return f"Queue {reason.args[0]}"

    def related(self, queue: str) -> tuple[str, ...]:
        root = self.root(queue)
        return tuple(each for each in self.charges.queues() if self.root(each) == root)

    def priority(self, pod: Pod) -> int:
        return pod.priority

    def requests(self, queue: str, pod: Pod) -> dict[str, int]:
        requests = pod.requirements.requests
        found = {name: requests[name] for name in ("cpu", "memory") if name in requests}
        gpus = gpu_requests(requests) if pod.requirements.extended else 0
        return {**found, GPU: gpus} if gpus else found

    def devices(self, queue: str, uses: Iterable[DeviceUse]) -> dict[str, int]:
        gpus = sum(use.number for use in uses if is_gpu_class(use.class_name, self._resources))
        return {GPU: gpus} if gpus else {}

    def excludes(self, queue: str, class_name: str) -> Reason | None:
        return None

    def assets(self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int]) -> dict[Asset, int]:
        return self._assets(pod, amounts, _ALL)

    def reservation(self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int]) -> dict[Asset, int]:
        return self._assets(pod, amounts, _RESERVED)

    def _assets(self, pod: Pod, amounts: Mapping[str, int], flavor: str) -> dict[Asset, int]:
        flavors = (flavor,) if self.is_preemptible(pod) else (flavor, _KEPT)
        return {Asset(each, name): amount for each in flavors for name, amount in amounts.items()}

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        found: dict[str, dict[str, int]] = {}
        for asset, amount in assets.items():
            found.setdefault(_COUNTS[asset.flavor], {})[asset.resource] = amount
        for which, amounts in found.items():
            self.tree.count(queue, which, amounts, sign)

    def leave(self, pod: Pod) -> None:
        """The pod was asked to go."""
        queue = self.charged_to(pod)
        if queue:
            self._leaving[pod.uid] = queue, self.held_by(pod)
            self.tree.count(queue, "leaving", self._leaving[pod.uid][1], 1)

    def stay(self, pod: Pod) -> None:
        """It does not count as one that was asked to go any more."""
        if pod.uid in self._leaving:
            queue, held = self._leaving.pop(pod.uid)
            self.tree.count(queue, "leaving", held, -1)

    def charged_to(self, pod: Pod) -> str:
        """The queue that a pod on a node is charged to; empty where it is in none."""
        charge = self.charges.of(pod.uid)
        return charge.queue if charge is not None else ""

    def held_by(self, pod: Pod) -> dict[str, int]:
        """What a pod holds that is charged to a queue."""
        return {asset.resource: number for asset, number in self.charges.assets_of(pod).items() if not asset.flavor}

    def is_preemptible(self, pod: Pod) -> bool:
        group = self._groups.of(pod) if pod.group is not None else None
        if group is not None and group.preemptible is not None:
            return group.preemptible
        said = pod.labels.get(PREEMPTIBILITY)
        if said in ("preemptible", "non-preemptible"):
            return said == "preemptible"
        return pod.priority < NON_PREEMPTIBLE_FROM

    # Whether there is room

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

    def short(self, ask: Ask) -> Reason | None:
        for node in self.tree.path(ask.queue):
            for name, amount in ask.wanted.items():
                if amount and node.taken(name) + amount > node.limit(name):
                    return _shortage(Code.OVER_LIMIT, node, name, amount, node.taken(name), node.limit(name))
        if self.is_preemptible(ask.pod):
            return None
        for node in self.tree.path(ask.queue):
            for name, amount in ask.wanted.items():
                kept, quota = node.kept.get(name, 0.0), node.quota(name)
                if amount and kept + amount > quota:
                    return _shortage(Code.NON_PREEMPTIBLE_OVER_QUOTA, node, name, amount, kept, quota)
        return None

    def is_hopeful(self, queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
        return True

    def has_room(self, queue: str, kept: Mapping[Asset, int]) -> bool:
        return True

    def gives_way(self, queue: str) -> bool:
        self.shares()
        return any(
            node.taken(name) > min(node.allocatable(name), node.quota(name))
            for node in self.tree.path(queue)
            for name in kai_queue.RESOURCES
        )

    def may_remove(self, ask: Ask, queue: str, priority: int) -> bool:
        return priority < ask.priority if queue == ask.queue else self.gives_way(queue)

    def short_on(self, ask: Ask, node: Node) -> Status | None:
        reason = self.short(ask)
        return Status("", (reason,)) if reason is not None else None

    def rank(self, ask: Ask, node: Node) -> int:
        return 0

    def flavors_on(self, ask: Ask, node: Node) -> tuple[str | None, ...]:
        return ()

    def is_uniform(self, queue: str) -> bool:
        return True

    # Order and reclaim

    def is_held_up(self, ask: Ask) -> bool:
        return False

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        queue = self.queue_of(pod)
        if queue is None:
            self.forget(pod)
            return None
        claims = self.charges.claims_wanted(queue, pod)
        self._demand.add(pod.uid, queue, self.requests(queue, pod), claims, job_of(pod))
        return Turn(self._turns, queue, pod.priority)

    def forget(self, pod: Pod) -> None:
        self._demand.remove(pod.uid)

    def let_pass(self, pod: Pod) -> None:
        pass

    def first(self, heads: Mapping[str, Pod]) -> str:
        """The queue whose turn it is, of those whose next pods these are."""
        self.shares()
        return self._order.first(heads, lambda pod: self._demand.of(job_of(pod)))

    def is_entitled(self, pod: Pod) -> bool:
        """Whether others may have to go for the sake of the pod: its queue stays within its share with it."""
        path, wanted = self.tree.path(self.queue_of(pod) or ""), self._demand.of(job_of(pod))
        return bool(path) and path[0].within_share(wanted)

    def removals(self, ask: Ask) -> KaiRemovals:
        """Who may be removed for the sake of pods that find no place."""
        self.shares()
        return KaiRemovals(self, ask, not_before=self.not_before(ask.pod))

    def not_before(self, pod: Pod) -> float:
        """The time before which nobody is removed for the sake of the pod; 0 where it does not say so."""
        group = self._groups.of(pod) if pod.group is not None else None
        document = group.document if group is not None else pod.document
        delay = delay_of(pod, document)
        came = seconds_of(mapping(document.get("metadata")).get("creationTimestamp")) if delay else None
        return came + delay if came is not None else 0.0

    def may_reclaim(self, ask: Ask) -> bool:
        self.shares()
        entitled = self.tree.path(ask.queue)[0].within_share(ask.wanted)
        return entitled or any(each.pod.priority < ask.priority for each in self.charges.within(ask.queue))

    def reclaim(self, ask: Ask, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Those that are going are out of sight here, so that they do not count as leaving too."""
        self._count_leaving(-1)
        try:
            found = fewest(self.removals(ask), self.related(ask.queue), trial, lambda: self.short(ask) is None)
        finally:
            self._count_leaving(1)
        return (found, self._assets(ask.pod, ask.wanted, _RESERVED)) if found is not None else None

    def _count_leaving(self, sign: int) -> None:
        for queue, held in self._leaving.values():
            self.tree.count(queue, "leaving", held, sign)


def job_of(pod: Pod) -> Hashable:
    """What it is placed together with."""
    return pod.group or pod.uid


def _shortage(code: Code, node: ShareNode, resource: str, wanted: float, held: float, most: float) -> Reason:
    return Reason(code, (node.name, resource, *(f"{number:.15g}" for number in (wanted, held, most))))


def delay_of(pod: Pod, document: Object) -> float:
    """Seconds from when the pod came, or its group, during which nobody is removed for its sake."""
    said = mapping(document.get("spec")).get("preemptionDelay") or pod.labels.get(kai_queue.PREEMPTION_DELAY)
    return kai_queue.seconds(said) or 0.0
