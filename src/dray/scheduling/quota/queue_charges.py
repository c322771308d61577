"""QueueCharges: the quota that pods on nodes hold of their queues, for one queue system.

A pod is charged from the decision until it ended: for its requests and for the devices of its claims. A claim that
several pods of a queue share is charged once. The same amounts that were charged are subtracted later. All pods are
charged again when queues, claims, classes or nodes change that charges depend on, so that the charges are the same
after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object, is_deleting, key_of
from dray.scheduling.model.journal import Changes
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Status
from dray.scheduling.quota.claim_costs import ClaimCosts
from dray.scheduling.quota.kept_quota import KeptFor, KeptQuota
from dray.scheduling.quota.pod_costs import PodCosts, is_its_own
from dray.scheduling.quota.queue_context import KnownGroups, QueueContext
from dray.scheduling.quota.queue_policy import Ask, Asset, Member, QueuePolicy


class Charge(NamedTuple):
    """The amounts that a queue is charged for a pod on a node."""

    pod: Pod
    node: Node
    queue: str = ""
    """The queue; empty if the pod names a queue that does not exist, and is charged nothing."""
    priority: int = 0
    """The priority of the pod in its queue system."""
    own: Mapping[Asset, int] = {}
    claims: Mapping[ClaimKey, Mapping[Asset, int]] = {}
    assets: Mapping[Asset, int] = {}
    """The amounts that the pod holds, including shared claims."""
    kept: KeptFor | None = None
    """The quota that the group of the pod keeps for missing pods."""
    is_resolved: bool = True
    """Whether the claims of the pod are known; otherwise it is charged nothing for them."""


class QueueCharges:
    def __init__(
        self,
        policy: QueuePolicy,
        context: QueueContext,
        *,
        costs: ClaimCosts | None = None,
        keeping: KnownGroups | None = None,
        outdated: Callable[[], None] = lambda: None,
        evicting: Callable[[Pod, int], None] = lambda pod, sign: None,
    ) -> None:
        """`keeping` are the groups, if queues keep quota for missing pods of groups. `outdated` is called when all pods
        are to be charged again. `evicting` is called with sign 1 for a pod that is being evicted, and with -1 when it
        has ended or its eviction failed."""
        self._policy = policy
        self._costs = costs or ClaimCosts(policy, context.claims)
        self.costs = PodCosts(policy, context.claims, self._costs, self.is_charged, self.refresh)
        self._claims = context.claims
        self._log = context.log
        self._journal = context.journal
        self._groups = keeping
        self._outdated = outdated
        self._evicting = evicting
        self._charges: dict[str, Charge] = {}
        """The charges of pods on nodes, by uid."""
        self._by_queue: dict[str, dict[str, Charge]] = {}
        """The charges by queue, then by pod uid."""
        self._by_priority: dict[str, dict[int, Counter[Asset]]] = {}
        """The amounts that pods hold, by queue and priority; shared claims count for each of their pods."""
        self._by_claim: dict[ClaimKey, set[str]] = {}
        """The queues that each claim is charged to."""
        self._users: dict[tuple[str, ClaimKey], set[str]] = {}
        """The uids of the pods that use a charged claim, by queue and claim."""
        self.ending: set[str] = set()
        """The uids of charged pods that are being deleted or evicted."""
        self.kept = KeptQuota(policy.charge, self.ending, context.journal)
        self._unresolved: set[str] = set()
        """The uids of pods that are charged for no claims, since their claims are not known yet."""
        self._stale = False

    def is_charged(self, queue: str, claim: ClaimKey) -> bool:
        """Whether a pod on a node that uses the claim is charged to the queue."""
        return (queue, claim) in self._users

    def place(self, pod: Pod, node: Node) -> Charge | None:
        """Charges a pod on a node; returns None if it names no queue of this system."""
        member = self._policy.member(pod)
        if member is None:
            return None
        charge = self._make(pod, node, member)
        self._file(charge)
        self._count(charge, 1)
        if is_deleting(pod.document):
            self.end(pod.uid)
        return charge

    def displace(self, pod: Pod) -> None:
        charge = self._charges.get(pod.uid)
        if charge is not None:
            self._remove(charge)
            self.ending.discard(pod.uid)
            if charge.queue and not self._journal.is_open:
                self.free(charge.queue)

    def end(self, uid: str) -> None:
        """Notes that a pod is being deleted."""
        if uid in self._charges:
            self.ending.add(uid)
            if (key := self._charges[uid].kept) is not None:
                self.kept.settle(key)

    def evict(self, uid: str) -> None:
        """Notes that a pod is being evicted for others."""
        if uid in self._charges and self._charges[uid].queue:
            self._evicting(self._charges[uid].pod, 1)
        self.end(uid)

    def ending_queues(self) -> Iterator[str]:
        """Returns the queues of pods that are ending."""
        return (self._charges[uid].queue for uid in self.ending)

    def unevict(self, pod: Pod) -> None:
        """Notes that a pod that was being evicted has ended, or that its eviction failed."""
        self._evicting(pod, -1)
        if not is_deleting(pod.document):
            self.ending.discard(pod.uid)
            if pod.uid in self._charges and (key := self._charges[pod.uid].kept) is not None:
                self.kept.settle(key)

    def renew(self, pod: Pod) -> None:
        """Charges the pod again, after its claims were allocated."""
        if (charge := self._charges.get(pod.uid)) is not None:
            self._count(charge, -1)
            self._renew(charge)

    def within(self, queue: str) -> Iterable[Charge]:
        """Returns the charges of one queue, including those that are set aside in a trial."""
        return self._by_queue.get(queue, {}).values()

    def of(self, uid: str) -> Charge | None:
        return self._charges.get(uid)

    def assets_of(self, pod: Pod) -> Mapping[Asset, int]:
        """Returns the amounts that the pod was charged, including shared claims."""
        charge = self._charges.get(pod.uid)
        return charge.assets if charge is not None else {}

    def below(self, queue: str, priority: int, asset: Asset) -> int:
        """Returns an upper bound of the amount that pods of lower priority hold of the queue."""
        return sum(held[asset] for lower, held in self._by_priority.get(queue, {}).items() if lower < priority)

    def has_below(self, queue: str, priority: int) -> bool:
        """Whether pods of lower priority hold quota of the queue."""
        held = self._by_priority.get(queue, {})
        return any(lower < priority and any(amounts.values()) for lower, amounts in held.items())

    def counted(self, pod: Pod) -> dict[Asset, int]:
        """Returns the amounts that the pod was charged; a shared claim counts for only one of its pods."""
        charge = self._charges.get(pod.uid)
        found: Counter[Asset] = Counter()
        if charge is not None:
            found.update(charge.own)
            for claim, amounts in charge.claims.items():
                if min(self._users[charge.queue, claim]) == pod.uid:
                    found.update(amounts)
        return found

    def held(self, pod: Pod) -> dict[str, int]:
        """Returns the amounts of `counted` by resource."""
        found: Counter[str] = Counter()
        for asset, amount in self.counted(pod).items():
            found[asset.resource] += amount
        return found

    def pods(self) -> list[Pod]:
        """Returns the pods on nodes that are charged to a queue."""
        return [charge.pod for charge in self._charges.values() if charge.queue]

    def trial(self) -> Changes:
        """Returns a trial for `set_aside`."""
        return self._journal.trial()

    def set_aside(self, pod: Pod, trial: Changes) -> None:
        """Removes the charge of the pod, inside the trial."""
        if (charge := self._charges.get(pod.uid)) is not None:
            self._count(charge, -1)
            trial.record(("charge", pod.uid), lambda: self._count(charge, 1))

    def claim_changed(self, claim: Object) -> None:
        """Notes a change of a claim, which may have got other devices than were charged."""
        if self._unresolved:
            self._stale = True
            return
        if not self._by_claim:
            return
        key = key_of(claim)
        for name in self._by_claim.get(key, ()):
            charge = self._charges[next(iter(self._users[name, key]))]
            amounts = self._costs.of(name, charge.pod, claim)
            if sum(charge.claims[key].values()) != sum(amounts.values()):
                self._stale = True

    def outdate(self) -> None:
        """Notes that queues, classes or nodes changed: all pods are charged again before the next question."""
        self._stale = True
        self._outdated()

    def admitted(self) -> dict[str, int]:
        """Returns the number of pods that are charged to each queue."""
        self.refresh()
        return {name: len(charges) for name, charges in self._by_queue.items() if name}

    def totals(self) -> Counter[tuple[str, Asset]]:
        """Returns the amounts that pods hold by queue and asset; a shared claim counts once."""
        self.refresh()
        found: Counter[tuple[str, Asset]] = Counter()
        for charge in self._charges.values():
            for asset, amount in self.counted(charge.pod).items():
                found[charge.queue, asset] += amount
        return found

    def refresh(self) -> None:
        """Charges all pods again if something changed that charges depend on, and wakes pods that wait for quota."""
        if self._stale:
            self._stale = False
            queues = list(self._by_queue)
            for charge in self._charges.values():
                self._count(charge, -1)
            for charge in list(self._charges.values()):
                self._renew(charge)
            for queue in queues:
                self.free(queue)

    def _renew(self, charge: Charge) -> None:
        """Charges a pod again whose charge was subtracted before."""
        renewed = self._make(charge.pod, charge.node, self._policy.member(charge.pod))
        if renewed.queue != charge.queue:
            self._unfile(charge)
        self._file(renewed)
        self._count(renewed, 1)

    def _make(self, pod: Pod, node: Node, member: Member | None) -> Charge:
        """Returns the charge of the pod on the node."""
        if member is None or not member.queue:
            return Charge(pod, node)
        queue, policy, assets = member.queue, self._policy, self._policy.node_flavors.assets
        if pod.is_assigned:
            pod.admitted[policy.label] = queue
        own = assets(queue, pod, node, policy.amounts(queue, pod, ()))
        resolved = self._claims.resolve(pod.document)
        claims: dict[ClaimKey, Mapping[Asset, int]] = {}
        held = dict(own)
        for _, claim in [] if isinstance(resolved, Status) else resolved:
            key = key_of(claim)
            if key in claims:
                continue
            if users := self._users.get((queue, key)):
                amounts = self._charges[next(iter(users))].claims[key]
            else:
                amounts = assets(queue, pod, node, self._costs.of(queue, pod, claim))
            claims[key] = amounts
            for asset, amount in amounts.items():
                held[asset] = held.get(asset, 0) + amount
        charge = Charge(pod, node, queue, member.priority, own, claims, held, None, not isinstance(resolved, Status))
        return charge._replace(kept=self._kept_for(charge)) if pod.group is not None else charge

    def _kept_for(self, charge: Charge) -> KeptFor | None:
        """Returns the quota that the group of a pod keeps for each missing pod, which is what this pod has by itself;
        None if the group keeps no quota."""
        group = self._groups.of(charge.pod) if self._groups is not None else None
        if group is None or not group.kept:
            return None
        resolved = self._claims.resolve(charge.pod.document)
        alone = Counter(charge.own)
        for entry, claim in [] if isinstance(resolved, Status) else resolved:
            if is_its_own(entry):
                alone.update(charge.claims[key_of(claim)])
        return KeptFor(charge.queue, group.key, group.kept, alone, charge.pod.created)

    def _file(self, charge: Charge) -> None:
        self._charges[charge.pod.uid] = charge
        if charge.queue:
            self._by_queue.setdefault(charge.queue, {})[charge.pod.uid] = charge

    def _unfile(self, charge: Charge) -> None:
        if charge.queue:
            del self._by_queue[charge.queue][charge.pod.uid]
            if not self._by_queue[charge.queue]:
                del self._by_queue[charge.queue]

    def _remove(self, charge: Charge) -> None:
        self._count(charge, -1)
        self._unfile(charge)
        del self._charges[charge.pod.uid]

    def _count(self, charge: Charge, sign: int) -> None:
        """Adds the amounts of the pod to its queue, or subtracts them if the sign is negative."""
        queue, uid = charge.queue, charge.pod.uid
        if not queue:
            return
        if not charge.is_resolved:
            (self._unresolved.add if sign > 0 else self._unresolved.discard)(uid)
        if charge.kept is not None and sign < 0:
            self.kept.remove(charge.kept, uid)
        self._policy.charge(queue, charge.own, sign)
        for claim, amounts in charge.claims.items():
            users = self._users.setdefault((queue, claim), set())
            (users.discard if sign < 0 else users.add)(uid)
            # A claim is charged with the first pod that uses it, and subtracted with the last.
            if len(users) == (sign > 0):
                self._policy.charge(queue, amounts, sign)
                self._use(queue, claim, sign)
        held = self._by_priority.setdefault(queue, {}).setdefault(charge.priority, Counter())
        (held.update if sign > 0 else held.subtract)(charge.assets)
        if charge.kept is not None and sign > 0:
            self.kept.add(charge.kept, uid)

    def _use(self, queue: str, claim: ClaimKey, sign: int) -> None:
        """Updates the queues that a claim is charged to."""
        queues = self._by_claim.setdefault(claim, set())
        (queues.add if sign > 0 else queues.discard)(queue)
        if not queues:
            del self._by_claim[claim]
        if sign < 0:
            del self._users[queue, claim]

    def free(self, queue: str) -> None:
        """Wakes pods that wait for quota, after quota of the queue was freed."""
        for root in self._policy.queue(queue).limits.values():
            self._log.free(root, self._is_hopeful)

    def _is_hopeful(self, queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
        return self._policy.evictions(Ask((), queue, dict(wanted), priority)).is_hopeful()
