"""QueueCharges: what the pods on nodes hold of their queues, for one queue system.

A pod is charged when it is decided on, and no longer when it is gone: cpu, memory and what else it requests, and the
devices of its claims. A claim that several pods of a queue share is charged once. What was charged is what is given
back; everything is reckoned anew when queues, claims, classes or nodes change that it depends on. So after a restart it
comes out the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.allocation.usage import ClaimKey
from dray.api.objects import Object, is_deleting, key_of
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.claim_costs import MOST, ClaimCosts
from dray.scheduling.quota.kept_quota import KeptFor, KeptQuota
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.queue_context import QueueContext
from dray.scheduling.quota.queue_policy import Ask, Asset, Member, QueuePolicy

_NOTHING: Final[Mapping[ClaimKey, Object]] = {}
"""No demand counts for more: sums with one that asks for everything there will ever be stay meaningful."""


@dataclass(slots=True)
class Charge:
    """What a pod on a node was charged."""

    pod: Pod
    node: Node
    queue: str = ""
    own: dict[Asset, int] = field(default_factory=dict)
    claims: tuple[ClaimKey, ...] = ()
    assets: dict[Asset, int] = field(default_factory=dict)
    """What it holds by itself and with others."""
    priority: int = 0
    """Among the pods of its queue system."""
    kept: KeptFor | None = None
    """For whom quota is kept beside it."""


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
        """`keeping` are the groups for which queues keep quota of pods that are missing, if they do. `outdated` is
        called when everything is to be reckoned anew, and `evicting` with sign 1 for a pod that was asked to end and
        with -1 when it has ended, or stays."""
        self._policy = policy
        self._costs = costs or ClaimCosts(policy, context.claims)
        self._claims = context.claims
        self._waiters = context.waiters
        self._groups = keeping
        self._outdated = outdated
        self._evicting = evicting
        self._charges: dict[str, Charge] = {}
        """By pod uid."""
        self._by_queue: dict[str, dict[str, Charge]] = {}
        """The same by queue."""
        self._by_priority: dict[str, dict[int, Counter[Asset]]] = {}
        """By queue and priority, what pods hold, where what they share counts for each of them."""
        self._by_claim: dict[ClaimKey, set[str]] = {}
        """The queues that a claim is charged to."""
        self._shared: dict[tuple[str, ClaimKey], tuple[dict[Asset, int], set[str]]] = {}
        """By queue and claim: what it was charged, and the pods that use it."""
        self.ending: set[str] = set()
        """Of the pods that are charged those by uid that are being deleted, or were asked to end."""
        self._evicted: set[str] = set()
        """Of these the ones that were asked to end for the sake of others."""
        self.kept = KeptQuota(policy.charge, self.ending)
        self._unresolved: set[str] = set()
        """Pods by uid that are charged for no claims, since these are not known yet."""
        self._stale = False

    # What pods would take

    def wanted(
        self, queue: str, pods: Iterable[Pod], company: int = 1, got: Mapping[ClaimKey, Object] = _NOTHING
    ) -> dict[str, int]:
        """By resource, what the pods would be charged as things are: nothing for claims that others brought along, and
        once what they share. Each stands for `company` pods, most of which are yet to come. `got` are allocations in
        thought."""
        self.refresh()
        found: Counter[str] = Counter()
        seen: set[ClaimKey] = set()
        for pod in pods:
            _add(found, self._policy.amounts(queue, pod, ()), company)
            for entry, claim in self._entries_of(pod):
                key = key_of(claim)
                if key not in seen and (queue, key) not in self._shared:
                    _add(found, self._costs.of(queue, pod, claim, got.get(key)), company if _is_its_own(entry) else 1)
                seen.add(key)
        return found

    def claims_wanted(self, queue: str, pod: Pod) -> dict[ClaimKey, dict[str, int]]:
        """What each claim of the pod would come to, that nobody in the queue brought along."""
        found = {key_of(claim): claim for claim in self.claims_of(pod)}
        return {
            key: self._costs.of(queue, pod, claim) for key, claim in found.items() if (queue, key) not in self._shared
        }

    def excluded(self, queue: str, pod: Pod) -> Reason | None:
        """Why the pod may not have the devices of one of its claims, however many are free."""
        reasons = (self._costs.excluded(queue, claim) for claim in self.claims_of(pod))
        return next((reason for reason in reasons if reason is not None), None)

    def payable(
        self, queue: str, pod: Pod, claims: Sequence[Object], times: int
    ) -> tuple[Sequence[Object], Reason | None]:
        """The claims without alternatives that the queue cannot pay for so many pods like this one, beside what they
        want at the least; and why not. As they are where it can pay all."""
        self.refresh()
        # What they share is paid once.
        own = {
            key: 1 if key in self._claims.shared else times
            for key in map(key_of, self.claims_of(pod))
            if (queue, key) not in self._shared
        }
        wanted: Counter[str] = Counter()
        _add(wanted, self._policy.amounts(queue, pod, ()), times)
        for claim in claims:
            _add(wanted, self._costs.of(queue, pod, claim), own.get(key_of(claim), 0))
        found, problem = [], None
        for claim in claims:
            if key_of(claim) in own:
                claim, reason = self._costs.payable(queue, pod, claim, wanted, own[key_of(claim)])
                problem = problem or reason
            found.append(claim)
        return (found, problem) if problem is not None else (claims, None)

    def claims_of(self, pod: Pod) -> list[Object]:
        return [claim for _, claim in self._entries_of(pod)]

    def _entries_of(self, pod: Pod) -> list[tuple[Object, Object]]:
        """Each claim after its entry in the pod."""
        resolved = self._claims.resolve(pod.document)
        return [] if isinstance(resolved, Status) else resolved

    # What pods on nodes have

    def place(self, pod: Pod, node: Node) -> Charge | None:
        """Charges a pod on a node; returns None if it names no queue of this system."""
        member = self._policy.member(pod)
        if member is None:
            return None
        charge = self._charges[pod.uid] = Charge(pod, node)
        self._charge(charge, member)
        if is_deleting(pod.document):
            self.end(pod.uid)
        return charge

    def displace(self, pod: Pod) -> None:
        charge = self._charges.pop(pod.uid, None)
        if charge is not None:
            self.ending.discard(pod.uid)
            self._discharge(charge)
            self._file(charge, "")

    def end(self, uid: str) -> None:
        """Notes that a pod is being deleted."""
        if uid in self._charges:
            self.ending.add(uid)
            if (key := self._charges[uid].kept) is not None:
                self.kept.settle(key)

    def evict(self, uid: str) -> None:
        """Notes that a pod was asked to end for the sake of others."""
        if uid in self._charges and self._charges[uid].queue:
            self._evicted.add(uid)
            self._evicting(self._charges[uid].pod, 1)
        self.end(uid)

    def ending_queues(self) -> Iterator[str]:
        """The queues of pods that are ending."""
        return (self._charges[uid].queue for uid in self.ending)

    def unevict(self, pod: Pod) -> None:
        """Notes that a pod has ended, or was not asked to end after all."""
        if pod.uid in self._evicted:
            self._evicted.discard(pod.uid)
            self._evicting(pod, -1)
        if not is_deleting(pod.document):
            self.ending.discard(pod.uid)
            if pod.uid in self._charges and (key := self._charges[pod.uid].kept) is not None:
                self.kept.settle(key)

    def renew(self, pod: Pod) -> None:
        """The pod's claims have devices now."""
        if pod.uid in self._charges:
            self.set_aside(pod)
            self.take_in(pod)

    def queues(self) -> Iterable[str]:
        """Those that something is charged to."""
        return self._by_queue

    def within(self, queue: str) -> Iterable[Charge]:
        """What is charged to one queue, those that are set aside too."""
        return self._by_queue.get(queue, {}).values()

    def of(self, uid: str) -> Charge | None:
        return self._charges.get(uid)

    def assets_of(self, pod: Pod) -> dict[Asset, int]:
        """What the pod was charged, with all of what it shares."""
        charge = self._charges.get(pod.uid)
        return charge.assets if charge is not None else {}

    def below(self, queue: str, priority: int, asset: Asset) -> int:
        """At least what pods of the queue hold that are of lower priority."""
        return sum(held[asset] for each, held in self._by_priority.get(queue, {}).items() if each < priority)

    def has_below(self, queue: str, priority: int) -> bool:
        """Whether pods of the queue hold something that are of lower priority."""
        held = self._by_priority.get(queue, {})
        return any(each < priority and any(amounts.values()) for each, amounts in held.items())

    def counted(self, pod: Pod) -> dict[Asset, int]:
        """What the pod was charged; what several share counts for one of them."""
        charge = self._charges.get(pod.uid)
        found: Counter[Asset] = Counter()
        if charge is not None:
            found.update(charge.own)
            for claim in charge.claims:
                amounts, users = self._shared[charge.queue, claim]
                if min(users) == pod.uid:
                    found.update(amounts)
        return found

    def held(self, pod: Pod) -> dict[str, int]:
        """The same by resource."""
        found: Counter[str] = Counter()
        for asset, amount in self.counted(pod).items():
            found[asset.resource] += amount
        return found

    def pods(self) -> list[Pod]:
        """Those on nodes that are charged for something."""
        return [each.pod for each in self._charges.values() if each.queue]

    def set_aside(self, pod: Pod) -> None:
        """In thought, until `take_in`: the pod is not charged."""
        if (charge := self._charges.get(pod.uid)) is not None:
            was, self._waiters.trying = self._waiters.trying, True
            self._discharge(charge)
            self._waiters.trying = was

    def take_in(self, pod: Pod) -> None:
        if (charge := self._charges.get(pod.uid)) is not None:
            self._charge(charge, self._policy.member(charge.pod))

    def claim_changed(self, claim: Object) -> None:
        """What it got may be other than was charged."""
        if self._unresolved:
            self._stale = True
            return
        if not self._by_claim:
            return
        key = key_of(claim)
        for name in self._by_claim.get(key, ()):
            amounts, users = self._shared[name, key]
            pod = self._charges[next(iter(users))].pod
            if sum(amounts.values()) != sum(self._costs.of(name, pod, claim).values()):
                self._stale = True

    def outdate(self) -> None:
        """Queues, classes or nodes changed: everything is reckoned anew before somebody looks."""
        self._stale = True
        self._outdated()

    def node_changed(self, node: Node, before: Mapping[str, str]) -> None:
        """Notes that the node had other labels before, by which its pods may have been charged."""
        if node.pods and self._policy.node_flavors.distinguishes(before, node.labels):
            self.outdate()

    def admitted(self) -> dict[str, int]:
        """By queue, how many pods are charged to it."""
        self.refresh()
        return {name: len(charges) for name, charges in self._by_queue.items() if name}

    def totals(self) -> Counter[tuple[str, Asset]]:
        """By queue, what its pods have; what several of them share once."""
        self.refresh()
        found: Counter[tuple[str, Asset]] = Counter()
        for charge in self._charges.values():
            for asset, amount in charge.own.items() if charge.queue else ():
                found[charge.queue, asset] += amount
        for (queue, _), (amounts, _) in self._shared.items():
            for asset, amount in amounts.items():
                found[queue, asset] += amount
        return found

    def refresh(self) -> None:
        if self._stale:
            self._stale = False
            for charge in self._charges.values():
                self._discharge(charge)
            for charge in self._charges.values():
                self._charge(charge, self._policy.member(charge.pod))

    def _charge(self, charge: Charge, member: Member | None) -> None:
        policy = self._policy
        queue = member.queue if member is not None else ""
        self._file(charge, queue)
        charge.own, charge.claims, charge.assets = {}, (), {}
        if member is None or not queue:
            return
        assets = policy.node_flavors.assets
        if charge.pod.is_assigned:
            charge.pod.admitted[policy.label] = queue
        charge.own = assets(queue, charge.pod, charge.node, policy.amounts(queue, charge.pod, ()))
        policy.charge(queue, charge.own, 1)
        resolved = self._claims.resolve(charge.pod.document)
        (self._unresolved.add if isinstance(resolved, Status) else self._unresolved.discard)(charge.pod.uid)
        claims = [] if isinstance(resolved, Status) else [claim for _, claim in resolved]
        charge.claims = tuple(map(key_of, claims))
        for claim in claims:
            key = queue, key_of(claim)
            if key not in self._shared:
                amounts = assets(queue, charge.pod, charge.node, self._costs.of(queue, charge.pod, claim))
                self._shared[key] = amounts, set()
                self._by_claim.setdefault(key[1], set()).add(queue)
                policy.charge(queue, amounts, 1)
            self._shared[key][1].add(charge.pod.uid)
        held = Counter(charge.own)
        for each in charge.claims:
            held.update(self._shared[queue, each][0])
        charge.assets, charge.priority = held, member.priority
        self._by_priority.setdefault(queue, {}).setdefault(charge.priority, Counter()).update(held)
        if (number := self._kept_for(charge.pod)) and charge.pod.group is not None:
            charge.kept = KeptFor(queue, charge.pod.group)
            self.kept.add(charge.kept, number, charge.pod.uid, self._of_its_own(charge, resolved))

    def _kept_for(self, pod: Pod) -> int:
        """Returns for how many pods the group of a pod keeps quota; 0 if it keeps none."""
        group = self._groups.of(pod) if self._groups is not None and pod.group is not None else None
        return group.kept if group is not None else 0

    def _of_its_own(self, charge: Charge, resolved: list[tuple[Object, Object]] | Status) -> dict[Asset, int]:
        """What a pod like it would be charged beside it."""
        found = Counter(charge.own)
        for entry, claim in [] if isinstance(resolved, Status) else resolved:
            if _is_its_own(entry):
                found.update(self._shared[charge.queue, key_of(claim)][0])
        return found

    def _file(self, charge: Charge, queue: str) -> None:
        """Where it is found by its queue."""
        if charge.queue != queue:
            if charge.queue:
                del self._by_queue[charge.queue][charge.pod.uid]
                if not self._by_queue[charge.queue]:
                    del self._by_queue[charge.queue]
            if queue:
                self._by_queue.setdefault(queue, {})[charge.pod.uid] = charge
            charge.queue = queue

    def _discharge(self, charge: Charge) -> None:
        self._unresolved.discard(charge.pod.uid)
        if not charge.queue:
            return
        if charge.kept is not None:
            self.kept.remove(charge.kept, charge.pod.uid)
            charge.kept = None
        self._by_priority[charge.queue][charge.priority].subtract(charge.assets)
        self._policy.charge(charge.queue, charge.own, -1)
        for claim in charge.claims:
            amounts, users = self._shared[charge.queue, claim]
            users.discard(charge.pod.uid)
            if not users:
                del self._shared[charge.queue, claim]
                self._by_claim[claim].discard(charge.queue)
                if not self._by_claim[claim]:
                    del self._by_claim[claim]
                self._policy.charge(charge.queue, amounts, -1)
        if not self._waiters.trying:
            self.free(charge.queue)

    def free(self, queue: str) -> None:
        """Wakes pods that wait for quota of which there is more, since pods of the queue gave some back."""
        for root in self._policy.queue(queue).limits.values():
            self._waiters.free(root, self._is_hopeful)

    def _is_hopeful(self, queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
        return self._policy.evictions(Ask((), queue, dict(wanted), priority)).is_hopeful()


def _is_its_own(entry: Object) -> bool:
    """Whether each pod like this one has a claim of its own."""
    return bool(entry.get("resourceClaimTemplateName"))


def _add(found: Counter[str], amounts: Mapping[str, int], times: int) -> None:
    found.update(
        amounts if times == 1 else {name: min(MOST * MOST, amount * times) for name, amount in amounts.items()}
    )
