"""Queues of pods with quota: which queue a pod is in, what it would take there, and what the pods on nodes have taken.

A pod is charged when it is decided on, to the flavor that its node has, and no longer when it is gone: cpu, memory and
what else it requests, and the devices of its claims by their class. A claim that several pods of a queue share is
charged once. What was charged is what is given back; everything is reckoned anew when queues, flavors or claims change
that it depends on. So after a restart it comes out the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api import label_selectors
from dray.api.objects import Key, Object, key_of, mapping, mappings
from dray.api.resource_claims import allocation_of, allocation_results, requests_of
from dray.scheduling.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.extended import ResourceMap
from dray.scheduling.front_ends import kueue
from dray.scheduling.front_ends.kueue import ClusterQueue, LocalQueue
from dray.scheduling.model import PODS, Node, Pod
from dray.scheduling.quota_tree import Asset, QuotaTree
from dray.scheduling.quota_waiters import QuotaWaiters
from dray.scheduling.reasons import Code, ObjectRef, Reason
from dray.scheduling.status import Status

Amounts = Mapping[str, int]
QUOTA: Final = "quota"
HEAD: Final = "queue"
ANY_QUEUE: Final = ObjectRef(QUOTA, "", "")
"""What those wait for who would be helped by any change of the queues."""


@dataclass(slots=True)
class Charge:
    """What a pod on a node was charged."""

    pod: Pod
    node: Node
    queue: str = ""
    own: dict[Asset, int] = field(default_factory=dict)
    claims: tuple[ClaimKey, ...] = ()


class Queues:
    def __init__(self, claims: ClaimAssumeCache, resources: ResourceMap) -> None:
        self.tree = QuotaTree()
        self._claims = claims
        self._resources = resources
        self._flavors: dict[str, Mapping[str, str]] = {}
        """The labels of their nodes."""
        self._cluster_queues: dict[str, ClusterQueue] = {}
        self._local_queues: dict[Key, LocalQueue] = {}
        self._charges: dict[str, Charge] = {}
        """By pod uid."""
        self._by_claim: dict[ClaimKey, set[str]] = {}
        """The queues that a claim is charged to."""
        self._shared: dict[tuple[str, ClaimKey], tuple[dict[Asset, int], set[str]]] = {}
        """By queue and claim: what it was charged, and the pods that use it."""
        self._waiting: dict[str, dict[str, tuple[int, int]]] = {}
        """By queue, of those where the first holds up the others: who waits, in which order."""
        self._turns: dict[str, str] = {}
        """By pod uid, the queue in which it waits for its turn."""
        self._reserved: dict[str, tuple[str, dict[Asset, int]]] = {}
        """By pod uid, quota that is kept for it, and of which queue."""
        self.leaving: set[str] = set()
        """Pods by uid that were asked to go for the sake of others, and are there yet."""
        self._unresolved: set[str] = set()
        """Pods by uid that are charged for no claims, since these are not known yet."""
        self._stale = False
        self.served = False
        """Whether there can be queues at all; where there cannot, what a pod says of its queue means nothing."""
        self.trying = False
        """Whether pods are placed in thought, so that what becomes free was free before."""
        self.freed: set[ObjectRef] = set()
        """What somebody may wait for of which there is more than before."""
        self.waiters = QuotaWaiters()

    # Objects

    def put(self, kind: str, document: Object) -> None:
        self.served = True
        name = document["metadata"]["name"]
        spec = mapping(document.get("spec"))
        if kind == "ResourceFlavor":
            self._flavors[name] = mapping(spec.get("nodeLabels"))
        elif kind == "LocalQueue":
            self._local_queues[key_of(document)] = kueue.local_queue(document)
        elif kind == "Cohort":
            groups = mappings(spec.get("resourceGroups"))
            self.tree.put_cohort(name, kueue.quotas(groups), str(spec.get("parentName") or ""))
        else:
            queue = self._cluster_queues[name] = kueue.cluster_queue(document)
            self.tree.put_queue(name, queue.quotas, queue.cohort)
        self._changed()

    def remove(self, kind: str, document: Object) -> None:
        name = document["metadata"]["name"]
        if kind == "ResourceFlavor":
            self._flavors.pop(name, None)
        elif kind == "LocalQueue":
            self._local_queues.pop(key_of(document), None)
        elif kind == "Cohort":
            self.tree.remove_cohort(name)
        else:
            self._cluster_queues.pop(name, None)
            self.tree.remove_queue(name)
        self._changed()

    def _changed(self) -> None:
        self._stale = True

    def all(self) -> list[ClusterQueue]:
        """By name, with what their pods have up to date."""
        self._bring_up_to_date()
        return [self._cluster_queues[name] for name in sorted(self._cluster_queues)]

    # Pods

    def queue_of(self, pod: Pod) -> ClusterQueue | None:
        name = pod.labels.get(kueue.QUEUE_LABEL)
        local = self._local_queues.get((pod.key[0], name)) if name else None
        return self._cluster_queues.get(local.cluster_queue) if local is not None else None

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        """Why the pod cannot be admitted whatever is free; `namespace` are the labels of its own."""
        name = pod.labels[kueue.QUEUE_LABEL]
        if kueue.POD_GROUP_LABEL in pod.labels:
            return Reason(Code.QUEUE_POD_GROUP)
        local = self._local_queues.get((pod.key[0], name))
        if local is None:
            return Reason(Code.QUEUE_NOT_FOUND, (f"LocalQueue {pod.key[0]}/{name}",))
        queue = self._cluster_queues.get(local.cluster_queue)
        if queue is None:
            return Reason(Code.QUEUE_NOT_FOUND, (f"ClusterQueue {local.cluster_queue}",))
        if queue.stopped or local.stopped:
            return Reason(Code.QUEUE_STOPPED, (queue.name if queue.stopped else name,))
        if queue.namespaces is None or not label_selectors.from_object(queue.namespaces)(namespace):
            return Reason(Code.QUEUE_NAMESPACE, (queue.name, pod.key[0]))
        missing = [each for group in queue.groups for each in group.flavors if each not in self._flavors]
        if missing:
            return Reason(Code.QUEUE_NOT_FOUND, (f"ResourceFlavor {missing[0]}",))
        if self.tree.has_cycle(queue.name):
            return Reason(Code.QUEUE_CYCLE, (queue.name,))
        return None

    def flavors(self, queue: ClusterQueue, resource: str) -> tuple[str, ...]:
        group = queue.group_of(resource)
        return group.flavors if group is not None else ()

    def flavor_on(self, queue: ClusterQueue, resource: str, node: Node) -> str | None:
        """The flavor of the resource that the node has: the first whose labels it has."""
        for flavor in self.flavors(queue, resource):
            labels = self._flavors.get(flavor) or {}
            if all(node.labels.get(key) == value for key, value in labels.items()):
                return flavor
        return None

    def is_uniform(self, queue: ClusterQueue) -> bool:
        """Whether it makes no difference to which node a pod goes."""
        return all(len(each.flavors) == 1 and not self._flavors.get(each.flavors[0]) for each in queue.groups)

    # What a pod takes

    def wanted(self, queue: ClusterQueue, pod: Pod) -> dict[str, int]:
        """By resource, what the pod would be charged as things are: nothing for claims that others brought along."""
        self._bring_up_to_date()
        found = Counter(self._requests(queue, pod))
        for claim in self._claims_of(pod):
            if (queue.name, key_of(claim)) not in self._shared:
                found.update(self._devices(queue, claim))
        return found

    def uncovered(self, queue: ClusterQueue, pod: Pod) -> str | None:
        """A resource that the pod requests and the queue has no quota for."""
        requests = pod.requirements.requests
        return next((name for name in sorted(requests) if queue.group_of(name) is None), None)

    def _requests(self, queue: ClusterQueue, pod: Pod) -> dict[str, int]:
        requests = {**pod.requirements.requests, PODS: 1}
        return {name: amount for name, amount in requests.items() if queue.group_of(name) is not None}

    def _claims_of(self, pod: Pod) -> list[Object]:
        resolved = self._claims.resolve(pod.document)
        return [] if isinstance(resolved, Status) else [claim for _, claim in resolved]

    def _devices(self, queue: ClusterQueue, claim: Object) -> dict[str, int]:
        """The devices of a claim by the name under which the queue counts their class."""
        found: Counter[str] = Counter()
        for class_name, number in self._classes(claim):
            name = next((each for each in self._resources.names(class_name) if queue.group_of(each) is not None), None)
            if name is not None:
                found[name] += number
        return found

    def _classes(self, claim: Object) -> Iterator[tuple[str, int]]:
        """Device classes with numbers: those that it got, or else the fewest that it could get."""
        allocation = allocation_of(claim) or self._claims.assumed_allocation(key_of(claim))
        got = Counter(str(each.get("request")) for each in allocation_results(allocation)) if allocation else None
        for request in requests_of(claim["spec"]):
            options = [(request["name"], request["exactly"])] if request.get("exactly") else []
            options += [(f"{request['name']}/{each['name']}", each) for each in request.get("firstAvailable") or ()]
            if any(each.get("adminAccess") for _, each in options):
                continue
            if got is not None:
                yield from ((str(each.get("deviceClassName")), got[name]) for name, each in options if got[name])
            elif options:
                fewest = min(options, key=lambda option: option[1].get("count") or 1)[1]
                yield str(fewest.get("deviceClassName")), fewest.get("count") or 1

    # Charging

    def place(self, pod: Pod, node: Node) -> None:
        if not pod.ghost and kueue.QUEUE_LABEL in pod.labels:
            charge = self._charges[pod.uid] = Charge(pod, node)
            self._charge(charge)

    def displace(self, pod: Pod) -> None:
        charge = self._charges.pop(pod.uid, None)
        if charge is not None:
            self.leaving.discard(pod.uid)
            self._discharge(charge)

    def renew(self, pod: Pod) -> None:
        """The pod's claims have devices now."""
        charge = self._charges.get(pod.uid)
        if charge is not None:
            self._discharge(charge)
            self._charge(charge)

    def charged(self, root: str) -> list[tuple[str, Pod]]:
        """The pods on nodes that are charged to queues below a root, with their queues."""
        self._bring_up_to_date()
        roots = {name: self.tree.root(name) for name in self._cluster_queues}
        return [(each.queue, each.pod) for each in self._charges.values() if roots.get(each.queue) == root]

    def assets_of(self, pod: Pod) -> set[Asset]:
        charge = self._charges[pod.uid]
        found = {*charge.own}
        for claim in charge.claims:
            found.update(self._shared[charge.queue, claim][0])
        return found

    def set_aside(self, pod: Pod) -> None:
        """In thought, until `take_in`: the pod is not charged."""
        charge = self._charges[pod.uid]
        was, self.trying = self.trying, True
        self._discharge(charge)
        self.trying = was

    def take_in(self, pod: Pod) -> None:
        self._charge(self._charges[pod.uid])

    def reserve(self, pod: Pod, queue: ClusterQueue, assets: dict[Asset, int]) -> None:
        """Kept for the pod while those go who have it; until it is tried again, or gone."""
        self.unreserve(pod.uid)
        self._reserved[pod.uid] = queue.name, assets
        self.tree.charge(queue.name, assets, 1)

    def gone(self, uid: str) -> None:
        """The pod does not wait any more."""
        self.waiters.forget(uid)
        self.unreserve(uid)

    def unreserve(self, uid: str) -> None:
        name, assets = self._reserved.pop(uid, ("", {}))
        if name:
            self.tree.charge(name, assets, -1)

    def claim_changed(self, claim: Object) -> None:
        """What it got may be other than was charged."""
        if self._unresolved:
            self._stale = True
            return
        key = key_of(claim)
        for name in self._by_claim.get(key, ()):
            queue, (amounts, _) = self._cluster_queues.get(name), self._shared[name, key]
            if queue is not None and sum(amounts.values()) != sum(self._devices(queue, claim).values()):
                self._stale = True

    def _charge(self, charge: Charge) -> None:
        queue = self.queue_of(charge.pod)
        charge.queue, charge.own, charge.claims = "", {}, ()
        if queue is None:
            return
        charge.queue = queue.name
        charge.own = self._assets(queue, charge.node, self._requests(queue, charge.pod))
        self.tree.charge(queue.name, charge.own, 1)
        resolved = self._claims.resolve(charge.pod.document)
        (self._unresolved.add if isinstance(resolved, Status) else self._unresolved.discard)(charge.pod.uid)
        claims = self._claims_of(charge.pod)
        charge.claims = tuple(map(key_of, claims))
        for claim in claims:
            key = queue.name, key_of(claim)
            if key not in self._shared:
                amounts = self._assets(queue, charge.node, self._devices(queue, claim))
                self._shared[key] = amounts, set()
                self._by_claim.setdefault(key[1], set()).add(queue.name)
                self.tree.charge(queue.name, amounts, 1)
            self._shared[key][1].add(charge.pod.uid)

    def _discharge(self, charge: Charge) -> None:
        self._unresolved.discard(charge.pod.uid)
        if not charge.queue:
            return
        self.tree.charge(charge.queue, charge.own, -1)
        for claim in charge.claims:
            amounts, users = self._shared[charge.queue, claim]
            users.discard(charge.pod.uid)
            if not users:
                del self._shared[charge.queue, claim]
                self._by_claim[claim].discard(charge.queue)
                if not self._by_claim[claim]:
                    del self._by_claim[claim]
                self.tree.charge(charge.queue, amounts, -1)
        if charge.queue in self._cluster_queues and not self.trying:
            root = self.tree.root(charge.queue)
            self.freed.add(ObjectRef(QUOTA, "", root))
            self.waiters.free(root)

    def _assets(self, queue: ClusterQueue, node: Node, amounts: Amounts) -> dict[Asset, int]:
        found = {}
        for name, amount in amounts.items():
            flavors = self.flavors(queue, name)
            flavor = self.flavor_on(queue, name, node) or (flavors[0] if flavors else "")
            found[Asset(flavor, name)] = amount
        return found

    def _bring_up_to_date(self) -> None:
        if self._stale:
            self._stale = False
            for charge in self._charges.values():
                self._discharge(charge)
            for charge in self._charges.values():
                self._charge(charge)

    # Order

    def wait(self, pod: Pod, arrival: int) -> None:
        """The pod has its turn by priority, then by arrival, in a queue where the first holds up the others."""
        if kueue.QUEUE_LABEL in pod.labels:
            self.waiters.arrive(pod.uid, arrival)
        queue = self.queue_of(pod)
        if queue is not None and queue.strict:
            self.forget(pod)
            self._waiting.setdefault(queue.name, {})[pod.uid] = (-pod.priority, arrival)
            self._turns[pod.uid] = queue.name

    def forget(self, pod: Pod) -> None:
        """It does not wait for its turn any more."""
        name = self._turns.pop(pod.uid, None)
        if name is not None:
            del self._waiting[name][pod.uid]
            self.freed.add(ObjectRef(HEAD, "", name))

    def is_held_up(self, queue: ClusterQueue, pod: Pod) -> bool:
        waiting = self._waiting.get(queue.name) if queue.strict else None
        turn = waiting.get(pod.uid) if waiting else None
        return turn is not None and waiting is not None and min(waiting.values()) < turn
