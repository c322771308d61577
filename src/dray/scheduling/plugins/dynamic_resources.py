"""DynamicResources: devices for the claims of a pod, and for extended resources that device classes serve.

All nodes get a quick look at how many free devices they have; the search for devices (`allocate`) is made on those that
would be chosen. It draws on the work of the attempt. Where that does not suffice the node is undecided, and the search
goes on elsewhere (`searches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.allocation import (
    ATTEMPT,
    Allocation,
    ChargeError,
    Policy,
    Rejection,
    RejectionKind,
    WorkExhausted,
    allocate,
    commit,
    confirm,
)
from dray.allocation.node_selectors import selects
from dray.api.objects import Key, Object, key_of, status_of
from dray.api.resource_claims import MAX_CONSUMERS, allocation_of, allocation_results, reserved_for, results_of
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.cluster.device_demand import CANNOT_ALLOCATE, chosen_rank
from dray.scheduling.cluster.extended import claim_for, wanted
from dray.scheduling.cluster.readiness import Binding, binding_of
from dray.scheduling.core import node_allocatable
from dray.scheduling.core.cycle import (
    NO_DEVICES,
    Cycle,
    DevicePlan,
    ExtendedResourceClaim,
    PodClaims,
    is_group_of,
    is_reserved,
)
from dray.scheduling.core.searches import Searches
from dray.scheduling.core.state import State
from dray.scheduling.model.actions import ClaimWrite
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip
from dray.scheduling.plugins.node_resources_fit import insufficient

_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
_PLACEHOLDER: Final = "<extended-resources>"
_NOTHING: Final[frozenset[str]] = frozenset()
_MOST_REACHED: Final = 256
Found = tuple[Allocation | None, ExtendedResourceClaim | None]


class DynamicResources(Plugin):
    depends_on = Depends.DEVICES
    weight = 2
    lazy = True

    def __init__(self, state: State, policy: Policy, binding_timeout: float) -> None:
        self._state = state
        self._policy = policy
        self._timeout = binding_timeout
        self.searches = Searches(state)
        self._reached: dict[int, tuple[Object, int, frozenset[int]]] = {}
        """By the identity of a selector: itself, the revision of nodes, and those that it selects."""

    # Before any node

    def pre_enqueue(self, pod: Pod) -> Status | None:
        resolved = self._state.claims.resolve(pod.document)
        return resolved if isinstance(resolved, Status) else None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        found = self._pod_claims(cycle)
        if isinstance(found, Status):
            return found
        cycle.claims = found
        if found.demand and (missing := found.demand.missing_class(self._state.inventory)) is not None:
            return Status(self.name, (missing,))
        if found.leftover is not None:
            waits_for = ObjectRef(CLAIM, *key_of(found.leftover))
            reason = Reason(Code.EXTENDED_RESOURCE_CLAIM)
            return Status(self.name, (reason,), waits_for=(waits_for,))
        if not found.claims and not found.demand:
            return SKIP
        cycle.nodes = self._usable_nodes(found)
        return None

    def _pod_claims(self, cycle: Cycle) -> PodClaims | Status:
        state, pod, document = self._state, cycle.pod, cycle.pod.document
        resolved = state.claims.resolve(document)
        if isinstance(resolved, Status):
            return resolved
        extended = wanted(document, state.resources) if pod.requirements.extended else _NOTHING
        unallocated, allocated, unavailable = [], [], []
        for number, (entry, claim) in enumerate(resolved):
            if not allocation_of(claim):
                if not state.claims.assumed(key_of(claim)):
                    unallocated.append(claim)
                    continue
                assumed = state.claims.as_assumed(claim)
                if assumed is None:
                    return Status(self.name, (Reason(Code.CLAIM_IN_ALLOCATION, key_of(claim)),), pending=True)
                claim = assumed
                resolved = [*resolved[:number], (entry, claim), *resolved[number + 1 :]]
            allocated.append(claim)
            if binding_of(claim, cycle.now, self._timeout) in (Binding.FAILED, Binding.EXPIRED):
                unavailable.append(claim)
        entries, claims = zip(*resolved, strict=True) if resolved else ((), ())
        return PodClaims(
            claims=claims,
            entries=entries,
            unallocated=tuple(unallocated),
            allocated=tuple(allocated),
            unavailable=tuple(unavailable),
            demand=state.demands.of(unallocated, extended, document, pod.requirements, allocated),
            leftover=state.claims.extended(pod.uid) if extended else None,
        )

    # Nodes that reach what is allocated already

    def _usable_nodes(self, claims: PodClaims) -> frozenset[int] | None:
        """The nodes where all claims that have devices can be used; None for all."""
        if claims.unavailable:
            return frozenset()
        found: frozenset[int] | None = None
        for claim in claims.allocated:
            here = self._usable(claim)
            if here is not None:
                found = here if found is None else found & here
        return found

    def _usable(self, claim: Object) -> frozenset[int] | None:
        selector = claim["status"]["allocation"].get("nodeSelector")
        skips = any(each.get("skipNodeOperations") for each in results_of(claim))
        if selector is None:
            return frozenset(node.number for node in self._state if _can_skip(node)) if skips else None
        if name := _single(selector):
            node = self._state.nodes.get(name)
            found = frozenset([node.number]) if node is not None and node.document is not None else frozenset()
        else:
            found = self._selected(selector)
        return frozenset(each for each in found if _can_skip(self._state.numbered[each])) if skips else found

    def _selected(self, selector: Object) -> frozenset[int]:
        """Thousands of pods may use one claim: 0.9 s for 2,000 on 512 nodes, and 8.5 without keeping the answer."""
        known = self._reached.get(id(selector))
        if known is None or known[0] is not selector or known[1] != self._state.nodes_revision:
            nodes = [node.number for node in self._state if selects(selector, node.name, node.labels)]
            self._reached = self._reached if len(self._reached) < _MOST_REACHED else {}
            known = self._reached[id(selector)] = selector, self._state.nodes_revision, frozenset(nodes)
        return known[2]

    def is_usable(self, claim: Object, node: Node) -> bool:
        """Whether the devices that the claim has can be used there."""
        here = self._usable(claim)
        return here is None or node.number in here

    def is_releasable(self, claim: Object, pod: Pod) -> bool:
        """Whether the devices of a claim can be given back for the pod's sake: nobody else uses them."""
        others = [each for each in reserved_for(claim) if each.get("uid") != pod.uid]
        if not others:
            return True
        return all(is_group_of(each, pod) for each in others) and not self._is_placed(pod)

    def _is_placed(self, pod: Pod) -> bool:
        """Whether a pod of its group is on a node."""
        return pod.group is not None and bool(self._state.groups.members(pod.group).placed)

    # One node

    def precheck(self, cycle: Cycle, node: Node) -> Status | None:
        demand = cycle.claims.demand
        return demand.precheck(self._state.inventory, self._state.resources, node) if demand else None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        """What is found is `cycle.devices`."""
        cycle.devices = None
        if cycle.nodes is not None and node.number not in cycle.nodes:
            return NOT_AVAILABLE
        claims, extended = self.claims_on(cycle, node)
        allocation: Allocation | None = None
        if claims:
            payable, dropped = self._payable(cycle, claims)
            answer = self._allocate(cycle, node, payable)
            if isinstance(answer, Status):
                return answer if answer.error else dropped or answer
            allocation = answer
        return self.plan(cycle, node, allocation, extended)

    def filter_together(self, cycles: Sequence[Cycle], node: Node) -> list[Found] | Status:
        """Devices for several pods on one node, chosen so that each gets its own. The other filters have been asked."""
        wanted, seen = [], set[Key]()
        for cycle in cycles:
            claims, extended = self.claims_on(cycle, node)
            # What they share one of them gets.
            payable, _ = self._payable(cycle, claims)
            wanted.append(([each for each in payable if key_of(each) not in seen], extended))
            seen.update(map(key_of, claims))
        work, document = cycles[-1].work, node.document
        assert document is not None
        every = [claim for claims, _ in wanted for claim in claims]
        with work.share(work.left // 2):
            beside = [claim for cycle in cycles for claim in cycle.claims.allocated]
            answer = allocate(
                self._state.inventory, document, every, beside=beside, policy=self._policy, work=work, explain=False
            )
        if isinstance(answer, Rejection):
            return _status(answer)
        found: list[Found] = []
        first = 0
        for claims, extended in wanted:
            end = first + len(claims)
            own = Allocation(answer.node, answer.claims[first:end], answer.results[first:end]) if claims else None
            found.append((own, extended))
            first = end
        return found

    def plan(
        self, cycle: Cycle, node: Node, allocation: Allocation | None, extended: ExtendedResourceClaim | None
    ) -> Status | None:
        """The devices are `cycle.devices`, if the node has what they take from it, and the queue of the pod too."""
        if allocation is not None and cycle.claims.demand.uncertain:
            got = dict(zip(allocation.claims, allocation.results, strict=True))
            if (status := self._state.queues.beyond(cycle.pod, node, got)) is not None:
                return status
        if not self._state.charging:
            cycle.devices = DevicePlan(allocation, extended) if allocation is not None else NO_DEVICES
            return None
        return self._take_from_node(cycle, node, allocation, extended)

    def _take_from_node(
        self, cycle: Cycle, node: Node, allocation: Allocation | None, extended: ExtendedResourceClaim | None
    ) -> Status | None:
        state, pod = self._state, cycle.pod
        try:
            taken = node_allocatable.taken(state.inventory, state.claims, pod, cycle.claims, allocation)
        except ChargeError as problem:
            return Status.of(self.name, Code.ALLOCATION_ERROR, str(problem), error=True)
        if isinstance(taken, Reason):
            return Status(self.name, (taken,))
        extra, statuses = taken
        served = cycle.claims.demand.served(node)
        short = insufficient(pod.requirements, node, extra=extra, served=served) if extra else None
        if short is not None:
            return short
        cycle.devices = DevicePlan(allocation, extended, extra, statuses)
        return None

    def claims_on(self, cycle: Cycle, node: Node) -> tuple[list[Object], ExtendedResourceClaim | None]:
        """The claims that need devices of the node, with one for extended resources that it has none of itself."""
        claims = cycle.claims
        served = claims.demand.served(node)
        if not served:
            return list(claims.unallocated), None
        requests, mappings = claims.demand.extended_requests(served, self._state.resources)
        namespace, name = cycle.pod.key
        # Until the API server has given it a name.
        claim = claim_for((namespace, f"{_PLACEHOLDER}/{name}"), cycle.pod.uid, requests)
        return [*claims.unallocated, claim], ExtendedResourceClaim(claim, tuple(mappings))

    def _payable(self, cycle: Cycle, claims: Sequence[Object]) -> tuple[Sequence[Object], Status | None]:
        """Without alternatives that the queue of the pod cannot pay, and why not."""
        return self._state.queues.payable(cycle.pod, claims) if cycle.claims.demand.prioritised else (claims, None)

    def _allocate(self, cycle: Cycle, node: Node, claims: Sequence[Object]) -> Allocation | Status:
        inventory, document, work = self._state.inventory, node.document, cycle.work
        assert document is not None
        beside = cycle.claims.allocated
        known = self.searches.known(cycle.claims.demand, node)
        if known is not None and known.results is None:
            return Status(self.name, (known.reason,))
        # So that one node that is hard to judge leaves something for the others.
        with work.share(work.left // 2):
            if known is not None and known.results is not None:
                try:
                    proposed = confirm(
                        inventory, document, claims, known.results, beside=beside, policy=self._policy, work=work
                    )
                except WorkExhausted:
                    return UNDECIDED
                if proposed is not None:
                    return proposed
            answer = allocate(inventory, document, claims, beside=beside, policy=self._policy, work=work, explain=False)
        if isinstance(answer, Allocation):
            return answer
        if answer.kind is RejectionKind.UNDECIDED:
            cycle.undecided[node.name] = node
        return _status(answer)

    # Alternatives (firstAvailable)

    def prescore(self, cycle: Cycle) -> Skip | None:
        return None if cycle.claims.demand.prioritised else SKIP

    def score(self, cycle: Cycle, node: Node) -> int:
        """How good the alternatives are that the node seems to offer."""
        assert cycle.feasible is not None
        ranks = cycle.feasible.ranks
        rank = ranks.get(node.number)
        if rank is None:
            rank = ranks[node.number] = cycle.claims.demand.rank(self._state.inventory, node)
        return rank

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        # What the claims that have devices got counts too: the others differ the less by comparison.
        allocated = cycle.claims.allocated
        settled = chosen_rank(allocated, [claim["status"]["allocation"] for claim in allocated])
        best = settled + max(scores.values(), default=0)
        return {number: (settled + rank) * 100 // best for number, rank in scores.items()} if best else {}

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        claims, devices = cycle.claims, cycle.devices
        if not claims.demand.prioritised or cycle.feasible is None or devices is None:
            return False
        allocation = devices.allocation
        found = allocation.results[: len(claims.unallocated)] if allocation is not None else ()
        rank = chosen_rank(claims.unallocated, found) if found else 0
        if rank >= self.score(cycle, node):
            return False
        cycle.feasible.ranks[node.number] = rank
        return True

    # Taking the devices

    def reserve(self, cycle: Cycle, node: Node) -> None:
        devices = cycle.devices or NO_DEVICES
        if devices.allocation is not None:
            commit(self._state.inventory, devices.allocation)
        allocations = results(devices)
        for key, result in allocations.items():
            self._state.claims.assume(key, result)
        writes = self._writes(cycle, devices, allocations)
        cycle.data[self.name] = writes, allocations
        for write in writes:
            self._state.claims.promise(key_of(write.claim), cycle.pod.uid)

    def unreserve(self, cycle: Cycle, node: Node) -> tuple[ObjectRef, ...]:
        claims = self._state.claims
        writes, allocations = cycle.data[self.name]
        for write in writes:
            claims.withdraw(key_of(write.claim), cycle.pod.uid)
        return tuple([ObjectRef(CLAIM, *key) for key, result in allocations.items() if claims.forget(key, result)])

    def writes(self, cycle: Cycle) -> tuple[ClaimWrite, ...]:
        """What is to be written to claims before the pod is bound, once the devices are reserved."""
        found: tuple[ClaimWrite, ...] = cycle.data[self.name][0]
        return found

    def _writes(self, cycle: Cycle, devices: DevicePlan, allocations: dict[Key, Object]) -> tuple[ClaimWrite, ...]:
        groups, pod = self._state.groups, cycle.pod
        found = [
            ClaimWrite(claim, allocations.get(key_of(claim)), groups.consumer(pod, entry))
            for entry, claim in zip(cycle.claims.entries, cycle.claims.claims, strict=True)
            if not is_reserved(claim, pod)
        ]
        if devices.extended is not None:
            claim = devices.extended.claim
            found.append(ClaimWrite(claim, allocations[key_of(claim)], groups.consumer(pod, {}), special=True))
        return tuple(found)

    def full_claim(self, cycle: Cycle) -> Status | None:
        """A claim with as many consumers as it can have: wherever the pod fits, that cannot be written."""
        for claim in cycle.claims.allocated:
            consumers = reserved_for(claim)
            if len(consumers) >= MAX_CONSUMERS and not is_reserved(claim, cycle.pod):
                return Status.of(self.name, Code.CLAIM_FULL, *key_of(claim), str(len(consumers)), error=True)
        return None


def results(devices: DevicePlan) -> dict[Key, Object]:
    """Allocations by claim."""
    allocation = devices.allocation
    return dict(zip(allocation.claims, allocation.results, strict=True)) if allocation is not None else {}


def all_devices(devices: DevicePlan) -> tuple[Object, ...]:
    return tuple(each for result in results(devices).values() for each in allocation_results(result))


def _status(rejection: Rejection) -> Status:
    if rejection.kind is RejectionKind.NO_SOLUTION:
        return CANNOT_ALLOCATE
    if rejection.kind is RejectionKind.UNDECIDED:
        return UNDECIDED
    error = rejection.kind is RejectionKind.FAULT
    return Status.of(DynamicResources.name, Code.ALLOCATION_ERROR, rejection.message, error=error)


def _single(selector: Object) -> str:
    """The name of the one node that a selector for a device of a node names."""
    match selector:
        case {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} as t]
        }:
            return str(name) if not t.get("matchExpressions") else ""
    return ""


def _can_skip(node: Node | None) -> bool:
    document = node.document if node is not None else None
    return document is not None and _NODE_OPERATIONS in (status_of(document).get("declaredFeatures") or ())


NOT_AVAILABLE: Final = Status.of(DynamicResources.name, Code.CLAIM_NOT_AVAILABLE)
UNDECIDED: Final = Status.of(DynamicResources.name, Code.UNDECIDED, f"{ATTEMPT:,}")
