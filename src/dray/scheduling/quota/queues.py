"""Queues: the queues of all queue systems. Finds the system of a pod and passes questions and changes to it.

A system decides by its `QueuePolicy`, and `QueueCharges` counts what its pods hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.model.group import Group
from dray.scheduling.model.journal import Changes, Journal
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Status
from dray.scheduling.quota import systems
from dray.scheduling.quota.queue_context import KnownGroups, QueueContext
from dray.scheduling.quota.queue_policy import PLUGIN, Ask, Member, QueuePolicy, quota_status
from dray.scheduling.quota.quota_log import QuotaLog
from dray.scheduling.quota.reserved_quota import QuotaReservations, ReservedQuota
from dray.scheduling.quota.turns import Turn

Contention = tuple[str, str]
"""A key that is equal for pods that may be evicted for each other: the label of the system, and `Queue.contends`."""

System = TypeVar("System")


class QueueMember(NamedTuple):
    """A pod of a queue that exists."""

    policy: QueuePolicy
    queue: str
    priority: int
    """The priority among the pods of its queues."""


class Queues:
    def __init__(
        self,
        claims: ClaimAssumeCache,
        resources: ResourceMap,
        groups: KnownGroups,
        capacity: ClusterCapacity,
        journal: Journal,
    ) -> None:
        self.groups = groups
        self._journal = journal
        self.reservations = QuotaReservations(journal)
        self.log = QuotaLog()
        capacity.share_sizes.on_change(self.log.free_all)
        context = QueueContext(claims, resources, groups, capacity, self.log, journal)
        self.policies: tuple[QueuePolicy, ...] = tuple(make(context) for make in systems.SYSTEMS)
        self.kinds: Mapping[str, QueuePolicy] = {kind: policy for policy in self.policies for kind in policy.stores}
        self.labels: frozenset[str] = frozenset(policy.label for policy in self.policies)
        """The pod labels that name queues."""
        self.served: list[QueuePolicy] = []
        """The systems whose kinds the server has. Queues of other systems are ignored if a pod names them."""
        self._asked = True
        """Whether the queues are asked; otherwise no pod counts as being in a queue."""
        self.revision = 0
        """Incremented when queues change, or how they count pods."""
        self.evicted: set[str] = set()
        """The uids of pods that are being evicted for others and have not ended yet."""
        self._revisions: dict[str, int] = {}
        """The last revision of each system's order for which pods were woken, by label of the system."""

    def system(self, kind: type[System]) -> System:
        """Returns the queue system of a class, for code that writes or shows its objects."""
        return next(policy for policy in self.policies if isinstance(policy, kind))

    # Objects

    def serve(self, kind: str) -> None:
        """Notes that there can be queues of the system that reads the kind."""
        if (policy := self.kinds[kind]) not in self.served:
            self.served = [known for known in self.policies if known is policy or known in self.served]

    def is_served(self, kind: str) -> bool:
        return self.kinds[kind] in self.served

    def put(self, kind: str, document: Object) -> None:
        self.log.change_queues(kind)
        self.serve(kind)
        self.kinds[kind].stores[kind][0](document)
        self.revision += 1

    def remove(self, kind: str, document: Object) -> None:
        policy = self.kinds[kind]
        # A later queue of the same name has no reservations.
        self.reservations.remove_all(policy)
        self.log.change_queues(kind)
        policy.stores[kind][1](document)
        self.revision += 1

    def outdate(self) -> None:
        """Notes that the amounts that pods hold or want may be counted differently than before."""
        for policy in self.served:
            self.revision += 1
            policy.charges.outdate()

    def node_changed(self, node: Node, before: Mapping[str, str]) -> None:
        """Notes that the labels of a node changed, which may change the flavors of its pods."""
        if node.pods and any(policy.node_flavors.distinguishes(before, node.labels) for policy in self.policies):
            self.outdate()

    def refresh(self) -> None:
        """Charges all pods again, if something changed that charges depend on."""
        for policy in self.policies:
            policy.charges.refresh()

    def sample(self, now: float) -> None:
        """Samples the usage of queues, if past usage counts."""
        for policy in self.served:
            if policy.order is not None:
                policy.order.sample(now)

    # Pods

    def namespace_changed(self) -> None:
        """Notes that a namespace changed, whose pods queues may select now."""
        if self.served:
            self.log.free_all()

    def memberships(self, pod: Pod) -> list[tuple[QueuePolicy, Member]]:
        """Returns the systems of which the pod names a queue, existing or not. Several are a contradiction."""
        if not (pod.joins and self._asked):
            return []
        return [(policy, member) for policy in self.served if (member := policy.member(pod)) is not None]

    def member(self, pod: Pod) -> QueueMember | None:
        """Returns the queue of a pod; None if the pod names no queue, or a queue that does not exist."""
        if pod.joins and self._asked:
            for policy in self.served:
                if (found := policy.member(pod)) is not None:
                    return QueueMember(policy, found.queue, found.priority) if found.queue else None
        return None

    def contention_of(self, pod: Pod) -> Contention | None:
        """Returns a key that is equal for pods that may be evicted for each other; None for a pod in no queue."""
        member = self.member(pod)
        return (member.policy.label, member.policy.queue(member.queue).contends) if member is not None else None

    def leave_out(self, trial: Changes) -> None:
        """Answers as if no pod were in a queue, inside the trial, to tell whether pods that lack quota would fit on
        nodes."""
        self._ask(asked=False)
        trial.record(("queues", "asked"), partial(self._ask, asked=True))

    def _ask(self, *, asked: bool) -> None:
        self._asked = asked

    # Taints that pods tolerate because of their queue

    @property
    def tolerant(self) -> tuple[str, ...]:
        """The labels of systems whose queues add tolerations to pods."""
        return tuple([policy.label for policy in self.served if policy.node_flavors.is_tolerant])

    def tolerates(self, pod: Pod, node: Node, taint: Object) -> bool:
        """Whether the queue of the pod adds a toleration for the taint on the node."""
        for policy in self.served if pod.joins else ():
            if policy.node_flavors.is_tolerant and (member := policy.member(pod)) is not None and member.queue:
                return policy.node_flavors.tolerates(member.queue, node, taint)
        return False

    # Alternatives of claims

    def within_quota(self, pod: Pod, claims: Sequence[Object]) -> tuple[Sequence[Object], Status | None]:
        """Returns the claims of the pod without the alternatives that its queue has no quota for, and why; the same
        claims if it has quota for all."""
        member = self.member(pod)
        if member is None:
            return claims, None
        group = self.groups.of(pod) if pod.group is not None else None
        root = self.groups.root(group) if group is not None else None
        times = self.groups.need(root) if isinstance(root, Group) else 1
        found, reason = member.policy.charges.costs.within_quota(member.queue, pod, claims, times)
        return found, Status(PLUGIN, (reason,)) if reason is not None else None

    def beyond(self, pod: Pod, node: Node, got: Mapping[ClaimKey, Object]) -> Status | None:
        """Returns why the queue of the pod has no quota for the devices that were found on a node; None if it has."""
        member = self.member(pod)
        if member is None:
            return None
        policy, queue, priority = member
        wanted = policy.charges.costs.wanted(queue, (pod,), got=got)
        reason = policy.short(Ask((pod,), queue, wanted, priority), node)
        return quota_status(reason) if reason is not None else None

    # Entitlement to evictions

    def cannot_evict(self, pod: Pod) -> bool:
        """Whether no pods are evicted for the pod; a cheap check, of which True is certain."""
        for policy in self.served:
            if policy.order is not None and (member := policy.member(pod)) is not None:
                is_entitled = policy.order.is_entitled(pod)
                return not is_entitled and not policy.charges.has_below(member.queue, member.priority)
        return False

    def is_entitled(self, pod: Pod) -> bool:
        """Whether other pods may be evicted for the pod whatever their priority; a cheap check."""
        orders = (policy.order for policy in self.served if policy.member(pod) is not None)
        return all(order is None or order.is_entitled(pod) for order in orders)

    def newly_entitled(self) -> list[QueuePolicy]:
        """Returns the systems for whose pods other pods may be evicted that could not be at the last call."""
        found = []
        for policy in self.served:
            if policy.order is not None and (revision := policy.order.revision) != self._revisions.get(policy.label, 0):
                self._revisions[policy.label] = revision
                found.append(policy)
        return found

    # Charges

    def place(self, pod: Pod, node: Node) -> None:
        for policy in self.policies if pod.joins and not pod.is_placeholder else ():
            charge = policy.charges.place(pod, node)
            if charge is not None and charge.queue and not self._journal.is_open:
                self.log.take(policy.label, charge.queue, charge.priority)

    def displace(self, pod: Pod) -> None:
        ending = [policy for policy in self.policies if pod.uid in policy.charges.ending] if self.reservations else []
        awaited = [(policy, member.queue) for policy in ending if (member := policy.member(pod)) is not None]
        if self.evicted:
            self.unmark_evicted((pod,))
        for policy in self.policies if pod.joins else ():
            policy.charges.displace(pod)
        for policy, queue in awaited if not self._journal.is_open else ():
            self.log.wake(self.reservations.ready(policy, queue))

    def admit(self, pod: Pod) -> None:
        """Notes that the pod is on its node, and stays in the queues that it is charged to."""
        if pod.joins and not pod.admitted:
            pod.admitted.update(self.charged(pod))

    def charged(self, pod: Pod) -> dict[str, str]:
        """Returns the queues that a pod on a node is charged to, by the labels of their systems."""
        found = {policy.label: policy.charges.of(pod.uid) for policy in self.policies} if pod.joins else {}
        return {label: charge.queue for label, charge in found.items() if charge is not None and charge.queue}

    def mark_evicted(self, pods: Iterable[Pod]) -> None:
        """Notes that the pods are being evicted for others."""
        for pod in pods:
            if pod.uid not in self.evicted:
                self.evicted.add(pod.uid)
                for policy in self.policies:
                    policy.charges.evict(pod.uid)

    def mark_ending(self, uid: str) -> None:
        """Notes that the pod is being deleted."""
        for policy in self.policies:
            policy.charges.end(uid)

    def unmark_evicted(self, pods: Iterable[Pod]) -> bool:
        """Notes that the pods have ended, or could not be evicted. Returns whether pods among them were being evicted,
        so that others may wait for them."""
        evicted = [pod for pod in pods if pod.uid in self.evicted]
        for pod in evicted:
            self.evicted.discard(pod.uid)
            for policy in self.policies:
                policy.charges.unevict(pod)
        return bool(evicted)

    def renew(self, pod: Pod) -> None:
        """Notes that the pod's claims have devices now."""
        for policy in self.policies if pod.joins else ():
            policy.charges.renew(pod)

    def claim_changed(self, claim: Object) -> None:
        for policy in self.served:
            policy.charges.claim_changed(claim)

    # Reserved quota

    def make_room(self, places: Iterable[tuple[Pod, Node]], victims: Iterable[Pod]) -> None:
        """Reserves the quota of pods for which victims are evicted, in the places that were found for them."""
        shared: set[ClaimKey] = set()
        for pod, node in places:
            member = self.member(pod)
            if member is not None:
                policy, queue, _ = member
                claims = policy.charges.costs.claims_wanted(queue, pod)
                amounts = Counter(policy.amounts(queue, pod, ()))
                for key in claims.keys() - shared:
                    amounts.update(claims[key])
                shared |= claims.keys()
                assets = policy.node_flavors.assets(queue, pod, node, amounts, reserved=True)
                self.reservations.reserve(ReservedQuota(pod, policy, queue, assets))
        # No other pods are evicted as well, for these pods or for others, before the deletion of the victims is seen.
        self.mark_evicted(victims)

    def give_up(self, uid: str) -> None:
        """Frees the quota that is reserved for the pod, and wakes pods that wait for it."""
        if (quota := self.reservations.remove(uid)) is not None:
            quota.policy.charges.free(quota.queue)

    # Order

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """Adds a waiting pod; returns the turn that it waits for, if queues take turns."""
        turn = None
        for policy in self.served if pod.joins else ():
            if policy.order is not None:
                turn = policy.order.wait(pod, arrival) or turn
        return turn

    def let_pass(self, pod: Pod) -> None:
        """Notes that the pod waits for something else than its queue."""
        for policy in self.served if pod.joins else ():
            if policy.order is not None:
                policy.order.let_pass(pod)

    def is_held_up(self, policy: QueuePolicy, ask: Ask) -> bool:
        """Whether the pods have to wait for other pods of the queue, even if there is quota for them."""
        return policy.order is not None and policy.order.is_held_up(ask)

    def decided(self, pod: Pod) -> None:
        """Notes that the pod was placed, and does not wait any more."""
        if not pod.joins:
            return
        self.reservations.remove(pod.uid)
        for policy in self.policies:
            if policy.order is not None:
                policy.order.forget(pod)
            charge = policy.charges.of(pod.uid)
            if charge is not None and charge.queue:
                self.log.take(policy.label, charge.queue, charge.priority)
            if charge is not None and policy.order is not None:
                policy.order.admitted(pod)

    def forget(self, pod: Pod) -> None:
        """Notes that the pod does not wait any more."""
        if pod.joins:
            for policy in self.policies:
                if policy.order is not None:
                    policy.order.forget(pod)
            self.give_up(pod.uid)
