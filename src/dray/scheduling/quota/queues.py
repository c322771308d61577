"""Queues of pods with quota, of all queue systems: which system a pod concerns, and what is reserved for which pod.

A system decides (`QueuePolicy`); what its pods hold is counted by `QueueCharges`. Here is what is the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.model.group import Group
from dray.scheduling.model.journal import Journal
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Status
from dray.scheduling.quota import systems
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import PLUGIN, Ask, Member, QueuePolicy
from dray.scheduling.quota.quota_status import quota_status
from dray.scheduling.quota.quota_waiters import QuotaWaiters
from dray.scheduling.quota.reclaim_waiters import ReclaimWaiters
from dray.scheduling.quota.reserved_quota import QuotaReservations, ReservedQuota
from dray.scheduling.quota.turns import Turn

Contention = tuple[str, str]
"""Equal for pods that may take places from each other: the label of their system, and what their queues share."""

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
        self.waiters = QuotaWaiters(self.reservations.awaits_others)
        capacity.share_sizes.on_change(self.waiters.free_all)
        context = QueueContext(claims, resources, groups, capacity, self.waiters, journal)
        self.policies: tuple[QueuePolicy, ...] = tuple(make(context) for make in systems.SYSTEMS)
        self.kinds: Mapping[str, QueuePolicy] = {kind: each for each in self.policies for kind in each.stores}
        self.labels: frozenset[str] = frozenset(each.label for each in self.policies)
        """The pod labels that name queues."""
        self._served: list[QueuePolicy] = []
        """Systems that can have queues at all; of others, what a pod says of its queue means nothing."""
        self.reclaim_waiters = ReclaimWaiters()
        self._unasked = False
        self.revision = 0
        """Changes with the queues, and with what they count by."""
        self.evicted: set[str] = set()
        """Pods by uid that were asked to end for the sake of others, and are there yet."""
        self._revisions: dict[str, int] = {}
        """The last revision of the order of each system that pods were woken for, by its label."""

    def system(self, kind: type[System]) -> System:
        """Returns the queue system of a class, for whoever writes or shows its objects."""
        return next(each for each in self.policies if isinstance(each, kind))

    # Objects

    def serve(self, kind: str) -> None:
        """Notes that there can be queues of the system that reads the kind."""
        if (policy := self.kinds[kind]) not in self._served:
            self._served = [each for each in self.policies if each is policy or each in self._served]

    def is_served(self, kind: str) -> bool:
        return self.kinds[kind] in self._served

    def put(self, kind: str, document: Object) -> None:
        # All are tried again.
        self.reclaim_waiters.clear()
        self.serve(kind)
        self.kinds[kind].stores[kind][0](document)
        self.revision += 1

    def remove(self, kind: str, document: Object) -> None:
        policy = self.kinds[kind]
        # One of the same name that comes later owes nothing to those who wait now.
        self.reservations.remove_all(policy)
        self.reclaim_waiters.clear()
        policy.stores[kind][1](document)
        self.revision += 1

    def outdate(self) -> None:
        """Notes that what pods hold or want may count as something else than before."""
        for each in self._served:
            self.revision += 1
            each.charges.outdate()

    def node_changed(self, node: Node, before: Mapping[str, str]) -> None:
        """Notes that the node had other labels before, by which queues count what its pods hold."""
        if node.pods and any(each.node_flavors.distinguishes(before, node.labels) for each in self.policies):
            self.outdate()

    def refresh(self) -> None:
        """Reckons anew what pods hold, if something changed that it depends on."""
        for each in self.policies:
            each.charges.refresh()

    def sample(self, now: float) -> None:
        """Notes what queues use, where past usage counts."""
        for each in self._served:
            if each.order is not None:
                each.order.sample(now)

    # Pods

    def namespace_changed(self) -> None:
        """Queues may select its pods now."""
        if self._served:
            self.waiters.free_all()

    def memberships(self, pod: Pod) -> list[tuple[QueuePolicy, Member]]:
        """The systems that the pod names a queue of, also one that does not exist; several contradict each other."""
        if not pod.joins or self._unasked:
            return []
        return [(each, member) for each in self._served if (member := each.member(pod)) is not None]

    def member(self, pod: Pod) -> QueueMember | None:
        """The queue of a pod; None for a pod of no queue, or of one that does not exist."""
        if pod.joins and not self._unasked:
            for each in self._served:
                if (found := each.member(pod)) is not None:
                    return QueueMember(each, found.queue, found.priority) if found.queue else None
        return None

    def contention_of(self, pod: Pod) -> Contention | None:
        """Returns what is equal for pods that may take places from each other; None for a pod in no queue."""
        member = self.member(pod)
        return (member.policy.label, member.policy.queue(member.queue).contends) if member is not None else None

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """Answers as if no pod were in a queue, to tell whether there is a place for pods that lack quota."""
        self._unasked = True
        try:
            yield
        finally:
            self._unasked = False

    # Taints that pods tolerate because of their queue

    @property
    def tolerant(self) -> tuple[str, ...]:
        """The labels of systems of which pods of some queue tolerate taints because of their queue."""
        return tuple([each.label for each in self._served if each.node_flavors.is_tolerant])

    def tolerates(self, pod: Pod, node: Node, taint: Object) -> bool:
        """Whether a pod tolerates a taint because of what its queue gives it."""
        for each in self._served if pod.joins else ():
            if each.node_flavors.is_tolerant and (member := each.member(pod)) is not None and member.queue:
                return each.node_flavors.tolerates(member.queue, node, taint)
        return False

    # Claims that may get more or less

    def payable(self, pod: Pod, claims: Sequence[Object]) -> tuple[Sequence[Object], Status | None]:
        """The claims of the pod without alternatives that its queue cannot pay, and why not; as they are where it can
        pay all."""
        member = self.member(pod)
        if member is None:
            return claims, None
        group = self.groups.of(pod) if pod.group is not None else None
        root = self.groups.root(group) if group is not None else None
        times = self.groups.need(root) if isinstance(root, Group) else 1
        found, reason = member.policy.charges.costs.payable(member.queue, pod, claims, times)
        return found, Status(PLUGIN, (reason,)) if reason is not None else None

    def beyond(self, pod: Pod, node: Node, got: Mapping[ClaimKey, Object]) -> Status | None:
        """Why the queue of the pod cannot pay the devices that were found for it on a node."""
        member = self.member(pod)
        if member is None:
            return None
        policy, queue, priority = member
        wanted = policy.charges.costs.wanted(queue, (pod,), got=got)
        reason = policy.short(Ask((pod,), queue, wanted, priority), node)
        return quota_status(reason) if reason is not None else None

    # Entitlement to evictions

    def is_modest(self, pod: Pod) -> bool:
        """Whether nobody is evicted for the sake of the pod, as far as can be told cheaply."""
        for each in self._served:
            if each.order is not None and (member := each.member(pod)) is not None:
                is_entitled = each.order.is_entitled(pod)
                return not is_entitled and not each.charges.has_below(member.queue, member.priority)
        return False

    def newly_entitled(self) -> list[QueuePolicy]:
        """The systems of which pods may have become entitled to evictions since this was asked last."""
        found = []
        for each in self._served:
            if each.order is not None and (revision := each.order.revision) != self._revisions.get(each.label, 0):
                self._revisions[each.label] = revision
                found.append(each)
        return found

    # What pods on nodes have

    def place(self, pod: Pod, node: Node) -> None:
        for each in self.policies if pod.joins and not pod.is_placeholder else ():
            charge = each.charges.place(pod, node)
            if charge is not None and charge.queue and self.reclaim_waiters and not self._journal.is_open:
                self.reclaim_waiters.take(each, charge.queue, charge.priority)

    def displace(self, pod: Pod) -> None:
        ending = [policy for policy in self.policies if pod.uid in policy.charges.ending] if self.reservations else []
        awaited = [(policy, member.queue) for policy in ending if (member := policy.member(pod)) is not None]
        if self.evicted:
            self.unmark_evicted((pod,))
        for each in self.policies if pod.joins else ():
            each.charges.displace(pod)
        for policy, queue in awaited if not self._journal.is_open else ():
            self.waiters.wake(self.reservations.ready(policy, queue))

    def admit(self, pod: Pod) -> None:
        """Notes that the pod is on its node, and stays in the queues that it is charged to."""
        if pod.joins and not pod.admitted:
            pod.admitted.update(self.charged(pod))

    def charged(self, pod: Pod) -> dict[str, str]:
        """Returns the queues that a pod on a node is charged to, by the labels of their systems."""
        found = {policy.label: policy.charges.of(pod.uid) for policy in self.policies} if pod.joins else {}
        return {label: charge.queue for label, charge in found.items() if charge is not None and charge.queue}

    def mark_evicted(self, pods: Iterable[Pod]) -> None:
        """Notes that the pods were asked to end for the sake of others."""
        for pod in pods:
            if pod.uid not in self.evicted:
                self.evicted.add(pod.uid)
                for each in self.policies:
                    each.charges.evict(pod.uid)

    def mark_ending(self, uid: str) -> None:
        """Notes that the pod is being deleted."""
        for each in self.policies:
            each.charges.end(uid)

    def unmark_evicted(self, pods: Iterable[Pod]) -> bool:
        """Notes that the pods have ended, or could not be asked to end. Returns whether others may have counted on some
        of them to end."""
        evicted = [pod for pod in pods if pod.uid in self.evicted]
        for pod in evicted:
            self.evicted.discard(pod.uid)
            for each in self.policies:
                each.charges.unevict(pod)
        return bool(evicted)

    def renew(self, pod: Pod) -> None:
        """Notes that the pod's claims have devices now."""
        for each in self.policies if pod.joins else ():
            each.charges.renew(pod)

    def claim_changed(self, claim: Object) -> None:
        for each in self._served:
            each.charges.claim_changed(claim)

    # Reserved quota

    def make_room(self, places: Iterable[tuple[Pod, Node]], victims: Iterable[Pod]) -> None:
        """Reserves what pods take of their queues in places of others that were found for them."""
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
        # Nobody else counts on those of queues, who would be asked to end twice.
        self.mark_evicted(each for each in victims if self.memberships(each))

    def give_up(self, uid: str) -> None:
        """Lets others have what is reserved for the pod; they are tried again."""
        if (quota := self.reservations.remove(uid)) is not None:
            quota.policy.charges.free(quota.queue)

    # Order

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """Takes a pod that waits from now on; returns whose turn it waits for, where queues take turns."""
        turn = None
        for each in self.policies if pod.joins else ():
            if each.member(pod) is not None:
                self.waiters.arrive(pod.uid, arrival)
                if each.order is not None:
                    turn = each.order.wait(pod, arrival) or turn
        return turn

    def let_pass(self, pod: Pod) -> None:
        """Notes that the pod waits for something else than its queue."""
        for each in self.policies if pod.joins else ():
            if each.order is not None and each.member(pod) is not None:
                each.order.let_pass(pod)

    def is_held_up(self, policy: QueuePolicy, ask: Ask) -> bool:
        """Whether other pods of the queue are first, even if there is room for these."""
        return policy.order is not None and policy.order.is_held_up(ask)

    def decided(self, pod: Pod) -> None:
        """Notes that the pod has a place, and does not wait for its turn any more."""
        if not pod.joins:
            return
        self.reclaim_waiters.remove(pod.uid)
        self.reservations.remove(pod.uid)
        for each in self.policies:
            if each.order is not None:
                each.order.forget(pod)
            charge = each.charges.of(pod.uid)
            if charge is not None and charge.queue and self.reclaim_waiters:
                self.reclaim_waiters.take(each, charge.queue, charge.priority)
            if charge is not None and each.order is not None:
                each.order.admitted(pod)

    def forget(self, pod: Pod) -> None:
        """Notes that the pod does not wait any more."""
        if pod.joins:
            for each in self.policies:
                if each.order is not None:
                    each.order.forget(pod)
            self.waiters.forget(pod.uid)
            self.reclaim_waiters.remove(pod.uid)
            self.give_up(pod.uid)
