"""Queues of pods with quota, of all front ends: which one a pod's words concern, and what is kept for whom.

A front end decides (`QueuePolicy`); what its pods hold is counted by `QueueCharges`. Here is what is the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.model.group import Group
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Status
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.queue_policy import PLUGIN, Ask, Asset, QueuePolicy
from dray.scheduling.quota.quota_waiters import ANY_QUEUE, QuotaWaiters
from dray.scheduling.quota.reclaim_waiters import ReclaimWaiters
from dray.scheduling.quota.turns import Turn

Rivals = tuple[str, str]
"""Of pods that take places from each other the label of their front end, and what their queues have in common."""

_NOTHING_LENT: Final = nullcontext()


class Queues:
    def __init__(
        self, claims: ClaimAssumeCache, resources: ResourceMap, groups: KnownGroups, capacity: ClusterCapacity
    ) -> None:
        self.groups = groups
        self.waiters = QuotaWaiters(self.awaits_quota)
        capacity.share_sizes.changed = lambda: self.waiters.freed.add(ANY_QUEUE)
        self.kueue = KueueQueues(claims, resources, self.waiters, groups, capacity.share_sizes)
        self.kai = KaiQueues(claims, resources, self.waiters, groups, capacity)
        self.policies: tuple[QueuePolicy, ...] = (self.kueue, self.kai)
        self.kinds: Mapping[str, QueuePolicy] = {kind: each for each in self.policies for kind in each.kinds}
        self._reserved: dict[str, tuple[QueuePolicy, str, Mapping[Asset, int]]] = {}
        """By pod uid, quota that is kept for it, and of which queue."""
        self._lent: set[str] = set()
        """Of these the pods that are being tried: what is kept for them is free meanwhile."""
        self.reclaim_waiters = ReclaimWaiters()
        self._unasked = False
        self.changed = False
        """Whether queues, or what they count by, changed since those that wait were told their turns."""
        self.leaving: set[str] = set()
        """Pods by uid that were asked to go for the sake of others, and are there yet."""

    # Objects

    def put(self, kind: str, document: Object) -> None:
        # All are tried again.
        self.reclaim_waiters.clear()
        self.kinds[kind].put(kind, document)
        self.changed = True

    def remove(self, kind: str, document: Object) -> None:
        policy = self.kinds[kind]
        # One of the same name that comes later owes nothing to those who wait now.
        for uid in [uid for uid, (other, _, _) in self._reserved.items() if other is policy]:
            self.unreserve(uid)
        self.reclaim_waiters.clear()
        policy.remove(kind, document)
        self.changed = True

    def outdate(self) -> None:
        """What pods hold or want may count as something else than before."""
        for each in self.policies:
            if each.served:
                self.changed = True
                each.outdate()

    def node_changed(self, node: Node, before: Mapping[str, str]) -> None:
        """The node had other labels before, by which queues count what its pods hold."""
        if node.pods and self.kueue.flavors.tell_apart(before, node.labels):
            self.outdate()

    def refresh(self) -> None:
        """What pods hold is reckoned anew, if something changed that it depends on."""
        for each in self.policies:
            each.charges.refresh()

    # Pods

    def namespace_changed(self) -> None:
        """Queues may select its pods now."""
        if self.kueue.served:
            self.waiters.freed.add(ANY_QUEUE)

    def policies_of(self, pod: Pod) -> list[QueuePolicy]:
        """The front ends by whose words the pod is in a queue; several contradict each other."""
        return [each for each in self.policies if each.served and each.concerns(pod)]

    def policy_of(self, pod: Pod) -> QueuePolicy | None:
        if not pod.joins or self._unasked:
            return None
        return next((each for each in self.policies if each.served and each.concerns(pod)), None)

    def rivals_of(self, pod: Pod) -> Rivals | None:
        """None for a pod that is in no queue."""
        policy = self.policy_of(pod)
        queue = policy.queue_of(pod) if policy is not None else None
        return (policy.label, policy.rivals(queue)) if policy is not None and queue is not None else None

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """As if no pod were in a queue: to tell whether there is a place for those that lack quota."""
        self._unasked = True
        try:
            yield
        finally:
            self._unasked = False

    def tolerates(self, pod: Pod, node: Node, taint: Object) -> bool:
        """Whether a pod tolerates a taint because of what its queue gives it."""
        queue = self.kueue.cluster_queue_of(pod) if pod.joins and self.kueue.served else None
        return queue is not None and self.kueue.flavors.tolerates(queue, node, taint)

    # Claims that may get more or less

    def payable(self, pod: Pod, claims: Sequence[Object]) -> tuple[Sequence[Object], Status | None]:
        """The claims of the pod without alternatives that its queue cannot pay, and why not; as they are where it can
        pay all."""
        policy, queue = self._paying(pod)
        if policy is None:
            return claims, None
        group = self.groups.of(pod) if pod.group is not None else None
        root = self.groups.root(group) if group is not None else None
        times = self.groups.need(root) if isinstance(root, Group) else 1
        found, reason = policy.charges.payable(queue, pod, claims, times)
        return found, Status(PLUGIN, (reason,)) if reason is not None else None

    def beyond(self, pod: Pod, node: Node, got: Mapping[ClaimKey, Object]) -> Status | None:
        """Why the queue of the pod cannot pay the devices that were found for it on a node."""
        policy, queue = self._paying(pod)
        if policy is None:
            return None
        wanted = policy.charges.wanted(queue, (pod,), got=got)
        status = policy.short_on(Ask((pod,), queue, wanted, policy.priority(pod)), node)
        return replace(status, plugin=PLUGIN) if status is not None else None

    def _paying(self, pod: Pod) -> tuple[QueuePolicy | None, str]:
        policy = self.policy_of(pod)
        queue = policy.queue_of(pod) if policy is not None else None
        return (policy, queue) if queue is not None else (None, "")

    def is_modest(self, pod: Pod) -> bool:
        """Whether nobody has to go for the sake of the pod, as far as can be told cheaply."""
        if not (self.kai.served and self.kai.concerns(pod)) or self.kai.is_entitled(pod):
            return False
        return not self.kai.charges.has_below(self.kai.queue_of(pod) or "", self.kai.priority(pod))

    # What pods on nodes have

    def place(self, pod: Pod, node: Node) -> None:
        for each in self.policies if pod.joins and not pod.ghost else ():
            if each.concerns(pod):
                each.charges.place(pod, node)
                if not self.waiters.trying:
                    self._take(each, pod)

    def _take(self, policy: QueuePolicy, pod: Pod) -> None:
        if self.reclaim_waiters and (queue := policy.queue_of(pod)) is not None:
            self.reclaim_waiters.take(policy, queue, policy.priority(pod))

    def displace(self, pod: Pod) -> None:
        going = [policy for policy in self.policies if pod.uid in policy.charges.going] if self._reserved else []
        awaited = [(policy, policy.queue_of(pod)) for policy in going]
        if self.leaving:
            self.stay((pod,))
        for each in self.policies if pod.joins else ():
            each.charges.displace(pod)
        for policy, queue in awaited if not self.waiters.trying else ():
            self._wake_reserved(policy, queue)

    def _wake_reserved(self, policy: QueuePolicy, queue: str | None) -> None:
        """Those are tried that quota is kept for until others are gone, unless they have to wait on for more of them:
        there may be as many as have to go."""
        root = policy.root(queue) if queue is not None else None
        waiting: dict[tuple[str, frozenset[tuple[Asset, int]]], bool] = {}
        """By what they wait for, of which there are few kinds."""
        for uid, (kept_by, name, assets) in self._reserved.items():
            if kept_by is policy and policy.root(name) == root:
                key = name, frozenset(assets.items())
                if key not in waiting:
                    waiting[key] = self.awaits_quota(uid)
                if not waiting[key]:
                    self.waiters.woken.append(uid)

    def awaits_quota(self, uid: str) -> bool:
        """Whether quota is kept for the pod that is still in use by those that are going: there is no point in trying
        it before."""
        if uid not in self._reserved:
            return False
        policy, queue, kept = self._reserved[uid]
        root = policy.root(queue)
        is_any_going = any(policy.root(each) == root for each in policy.charges.left_by())
        return is_any_going and not policy.has_room(queue, kept)

    def admit(self, pod: Pod) -> None:
        """Notes that the pod is on its node, and stays in the queues that it is charged to."""
        if pod.joins and not pod.admitted:
            pod.admitted = self.charged(pod)

    def charged(self, pod: Pod) -> dict[str, str]:
        """Returns the queues that a pod on a node is charged to, by the labels of their front ends."""
        found = {policy.label: policy.charges.of(pod.uid) for policy in self.policies} if pod.joins else {}
        return {label: charge.queue for label, charge in found.items() if charge is not None and charge.queue}

    def leave(self, pods: Iterable[Pod]) -> None:
        """They were asked to go for the sake of others."""
        for pod in pods:
            if pod.uid not in self.leaving:
                self.leaving.add(pod.uid)
                self.kai.leave(pod)
                self.going(pod.uid)

    def going(self, uid: str) -> None:
        """The pod is being deleted."""
        for each in self.policies:
            each.charges.leave(uid)

    def stay(self, pods: Iterable[Pod]) -> bool:
        """They are gone, or could not be asked to go. Whether others may have counted on some of them to go."""
        leaving = [pod for pod in pods if pod.uid in self.leaving]
        for pod in leaving:
            self.leaving.discard(pod.uid)
            self.kai.stay(pod)
            for each in self.policies:
                each.charges.stay(pod)
        return bool(leaving)

    def renew(self, pod: Pod) -> None:
        """The pod's claims have devices now."""
        for each in self.policies if pod.joins else ():
            each.charges.renew(pod)

    def claim_changed(self, claim: Object) -> None:
        for each in self.policies:
            if each.served:
                each.charges.claim_changed(claim)

    def reserve(self, pod: Pod, policy: QueuePolicy, queue: str, assets: Mapping[Asset, int]) -> None:
        """Kept for the pod while those go who have it: until it has a place, is gone or cannot have one any more."""
        self.unreserve(pod.uid)
        self._reserved[pod.uid] = policy, queue, assets
        policy.charge(queue, assets, 1)

    def hand_over(self, uid: str, heir: str, uids: Iterable[str]) -> None:
        """What is kept for a pod is kept for one of several that are placed together, and nothing else for them."""
        policy, queue, assets = self._reserved[uid]
        for each in (uid, *uids):
            self.unreserve(each)
        self._reserved[heir] = policy, queue, assets
        policy.charge(queue, assets, 1)

    def make_room(self, places: Iterable[tuple[Pod, Node]], victims: Iterable[Pod]) -> None:
        """Places of others were found for pods: what they take of their queues is kept for them meanwhile."""
        found = [(pod, node, policy) for pod, node in places if (policy := self.policy_of(pod)) is not None]
        shared: set[ClaimKey] = set()
        for pod, node, policy in found:
            queue = policy.queue_of(pod)
            if queue is not None:
                claims = policy.charges.claims_wanted(queue, pod)
                amounts = Counter(policy.requests(queue, pod))
                for key in claims.keys() - shared:
                    amounts.update(claims[key])
                shared |= claims.keys()
                self.reserve(pod, policy, queue, policy.reservation(queue, pod, node, amounts))
        # Nobody else counts on those of queues, who would be asked to go twice.
        taking = any(policy is self.kai for _, _, policy in found)
        self.leave(each for each in victims if taking or self.policy_of(each) is not None)

    def reserving(self) -> list[str]:
        """Pods by uid that quota is kept for."""
        return list(self._reserved)

    def is_reserved(self, policy: QueuePolicy, queues: Iterable[str]) -> bool:
        """Whether something of one of the queues is kept for pods that wait for others to go."""
        related = set(queues) if self._reserved else ()
        kept = (kept for uid, kept in self._reserved.items() if uid not in self._lent)
        return any(kept_by is policy and name in related for kept_by, name, _ in kept)

    def lent_to(self, *pods: Pod) -> AbstractContextManager[None]:
        """For one attempt of the pods: what is kept for them is free meanwhile, and kept on if they still wait."""
        return self._lending(pods) if self._reserved else _NOTHING_LENT

    @contextmanager
    def _lending(self, pods: Iterable[Pod]) -> Iterator[None]:
        lent = {each.uid: self._reserved[each.uid] for each in pods if each.uid in self._reserved}
        self._lent |= lent.keys()
        for policy, queue, assets in lent.values():
            policy.charge(queue, assets, -1)
        try:
            yield
        finally:
            for uid in lent.keys() & self._lent:
                self._lent.discard(uid)
                policy, queue, assets = lent[uid]
                policy.charge(queue, assets, 1)

    def unreserve(self, uid: str) -> None:
        if uid in self._reserved:
            policy, queue, assets = self._reserved.pop(uid)
            if uid in self._lent:
                self._lent.discard(uid)
            else:
                policy.charge(queue, assets, -1)

    def give_up(self, uid: str) -> None:
        """What is kept for the pod others may have, who are tried again."""
        if uid in self._reserved:
            policy, queue, _ = self._reserved[uid]
            self.unreserve(uid)
            for root in policy.roots(queue):
                self.waiters.free(root, policy.is_hopeful)

    # Order

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """The pod waits from now on; gives whose turn it waits for, where queues take turns."""
        turn = None
        for each in self.policies if pod.joins else ():
            if each.concerns(pod):
                self.waiters.arrive(pod.uid, arrival)
                turn = each.wait(pod, arrival) or turn
        return turn

    def let_pass(self, pod: Pod) -> None:
        """The pod waits for something else than its queue."""
        for each in self.policies if pod.joins else ():
            if each.concerns(pod):
                each.let_pass(pod)

    def decided(self, pod: Pod) -> None:
        """It has a place, and does not wait for its turn any more."""
        if not pod.joins:
            return
        self.reclaim_waiters.remove(pod.uid)
        self.unreserve(pod.uid)
        for each in self.policies:
            each.forget(pod)
            if each.concerns(pod):
                self._take(each, pod)
        if self.kueue.concerns(pod):
            self.kueue.admitted(pod)

    def gone(self, pod: Pod) -> None:
        """The pod does not wait any more."""
        if pod.joins:
            for each in self.policies:
                each.forget(pod)
            self.waiters.forget(pod.uid)
            self.reclaim_waiters.remove(pod.uid)
            self.give_up(pod.uid)
