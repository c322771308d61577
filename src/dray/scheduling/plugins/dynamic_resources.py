"""DynamicResources: devices for the claims of a pod, and for extended resources that device classes serve.

On all nodes `precheck` counts free devices. Only on nodes that would be chosen, `filter` searches for devices
(`allocate`). The search is limited by the work budget of the attempt. If the budget is used up the node is undecided,
and the search continues in the background (`searches`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from dray.api.objects import Key, Object, key_of
from dray.api.resource_claims import allocation_results
from dray.scheduling.cluster.claim_assume_cache import CLAIM
from dray.scheduling.cluster.device_demand import CANNOT_ALLOCATE, chosen_rank
from dray.scheduling.cluster.extended import claim_for
from dray.scheduling.core import node_allocatable
from dray.scheduling.core.cycle import (
    NO_DEVICES,
    Cycle,
    DevicePlan,
    ExtendedResourceClaim,
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
from dray.scheduling.plugins.pod_claims import NOBODY, Joining, PodClaimReader

_PLACEHOLDER: Final = "<extended-resources>"
Found = tuple[Allocation | None, ExtendedResourceClaim | None]


class DynamicResources(Plugin):
    depends_on = Depends.DEVICES
    weight = 2
    lazy = True

    def __init__(self, state: State, policy: Policy, binding_timeout: float) -> None:
        self._state = state
        self._policy = policy
        self.pod_claims = PodClaimReader(state, self.name, binding_timeout)
        self.searches = Searches(state)

    # Before any node is asked

    def pre_enqueue(self, pod: Pod) -> Status | None:
        resolved = self._state.claims.resolve(pod.document)
        return resolved if isinstance(resolved, Status) else None

    def prefilter(self, cycle: Cycle) -> Status | Skip | None:
        claims = self.pod_claims.read(cycle)
        if isinstance(claims, Status):
            return claims
        cycle.claims = claims
        if claims.demand and (missing := claims.demand.missing_class(self._state.inventory)) is not None:
            return Status(self.name, (missing,))
        if claims.leftover is not None:
            waits_for = ObjectRef(CLAIM, *key_of(claims.leftover))
            reason = Reason(Code.EXTENDED_RESOURCE_CLAIM)
            return Status(self.name, (reason,), waits_for=(waits_for,))
        if not claims.claims and not claims.demand:
            return SKIP
        cycle.nodes = self.pod_claims.usable_nodes(claims)
        return None

    def is_releasable(self, claim: Object, pod: Pod) -> bool:
        """Whether the claim can be deallocated for the pod: no other pod uses it."""
        return self.pod_claims.is_releasable(claim, pod)

    def full_claim(self, cycle: Cycle, joining: Joining = NOBODY) -> Status | None:
        """An error if a claim has the maximum number of consumers, so that it cannot be reserved for this pod.

        `joining` are consumers for whom claims will be reserved at the same time.
        """
        return self.pod_claims.full(cycle, joining)

    def may_fill_claims(self, cycles: Iterable[Cycle]) -> bool:
        """Whether a claim might get too many consumers if it were reserved for all these pods; False is certain."""
        return self.pod_claims.may_fill(cycles)

    def new_consumers(self, cycle: Cycle) -> list[tuple[Key, str]]:
        """The claims that have to be reserved for the pod, each with the uid of the consumer: the pod or its group."""
        return self.pod_claims.new_consumers(cycle)

    # One node

    def precheck(self, cycle: Cycle, node: Node) -> Status | None:
        demand = cycle.claims.demand
        return demand.precheck(self._state.inventory, self._state.resources, node) if demand else None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        """Searches for devices on the node; stores the result in `cycle.devices`."""
        cycle.devices = None
        if cycle.nodes is not None and node.number not in cycle.nodes:
            return NOT_AVAILABLE
        claims, extended = self.claims_on(cycle, node)
        allocation: Allocation | None = None
        if claims:
            within_quota, dropped = self._within_quota(cycle, claims)
            answer = self._allocate(cycle, node, within_quota)
            if isinstance(answer, Status):
                return answer if answer.error else dropped or answer
            allocation = answer
        return self.plan(cycle, node, allocation, extended)

    def filter_together(self, cycles: Sequence[Cycle], node: Node) -> list[Found] | Status:
        """Searches for devices for several pods on one node at once, after all other filters passed.

        Returns one result for each cycle. A claim that several pods share is in the result of the first of them.
        """
        wanted, seen = [], set[Key]()
        for cycle in cycles:
            claims, extended = self.claims_on(cycle, node)
            within_quota, _ = self._within_quota(cycle, claims)
            wanted.append(([claim for claim in within_quota if key_of(claim) not in seen], extended))
            seen.update(map(key_of, claims))
        work, document = cycles[-1].work, node.document
        assert document is not None
        all_claims = [claim for claims, _ in wanted for claim in claims]
        with work.share(work.left // 2):
            beside = [claim for cycle in cycles for claim in cycle.claims.allocated]
            answer = allocate(
                self._state.inventory,
                document,
                all_claims,
                beside=beside,
                policy=self._policy,
                work=work,
                explain=False,
            )
        if isinstance(answer, Rejection):
            return _status(answer)
        results_by_pod: list[Found] = []
        first = 0
        for claims, extended in wanted:
            end = first + len(claims)
            own = Allocation(answer.node, answer.claims[first:end], answer.results[first:end]) if claims else None
            results_by_pod.append((own, extended))
            first = end
        return results_by_pod

    def plan(
        self, cycle: Cycle, node: Node, allocation: Allocation | None, extended: ExtendedResourceClaim | None
    ) -> Status | None:
        """Stores the devices in `cycle.devices`, if the pod's queue has quota for them and the node has the resources
        that they take from the node."""
        if allocation is not None and cycle.claims.demand.uncertain:
            allocations = dict(zip(allocation.claims, allocation.results, strict=True))
            if (status := self._state.queues.beyond(cycle.pod, node, allocations)) is not None:
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
        """The claims that need devices of the node, and a claim for extended resources that devices must serve there.

        The claim for extended resources does not exist yet: it has a placeholder as its name.
        """
        claims = cycle.claims
        served = claims.demand.served(node)
        if not served:
            return list(claims.unallocated), None
        requests, mappings = claims.demand.extended_requests(served, self._state.resources)
        namespace, name = cycle.pod.key
        claim = claim_for((namespace, f"{_PLACEHOLDER}/{name}"), cycle.pod.uid, requests)
        return [*claims.unallocated, claim], ExtendedResourceClaim(claim, tuple(mappings))

    def _within_quota(self, cycle: Cycle, claims: Sequence[Object]) -> tuple[Sequence[Object], Status | None]:
        """Returns the claims without the alternatives that the pod's queue has no quota for, and why these were
        dropped."""
        return self._state.queues.within_quota(cycle.pod, claims) if cycle.claims.demand.prioritised else (claims, None)

    def _allocate(self, cycle: Cycle, node: Node, claims: Sequence[Object]) -> Allocation | Status:
        inventory, document, work = self._state.inventory, node.document, cycle.work
        assert document is not None
        beside = cycle.claims.allocated
        known = self.searches.known(cycle.claims.demand, node)
        if known is not None and known.results is None:
            return Status(self.name, (known.reason,))
        # Half of the budget is kept, so that a hard search on one node does not use up the budget for other nodes.
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
        """The rank of the alternatives that the node seems to offer."""
        assert cycle.feasible is not None
        ranks = cycle.feasible.ranks
        rank = ranks.get(node.number)
        if rank is None:
            rank = ranks[node.number] = cycle.claims.demand.rank(self._state.inventory, node)
        return rank

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        # Allocated claims have the same rank on all nodes; counting them makes the other differences smaller.
        allocated = cycle.claims.allocated
        settled = chosen_rank(allocated, [claim["status"]["allocation"] for claim in allocated])
        best = settled + max(scores.values(), default=0)
        return {number: (settled + rank) * 100 // best for number, rank in scores.items()} if best else {}

    def rescore(self, cycle: Cycle, node: Node) -> bool:
        claims, devices = cycle.claims, cycle.devices
        if not claims.demand.prioritised or cycle.feasible is None or devices is None:
            return False
        allocation = devices.allocation
        results = allocation.results[: len(claims.unallocated)] if allocation is not None else ()
        rank = chosen_rank(claims.unallocated, results) if results else 0
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
        """The writes to claims that must succeed before the pod is bound; available after `reserve`."""
        writes: tuple[ClaimWrite, ...] = cycle.data[self.name][0]
        return writes

    def _writes(self, cycle: Cycle, devices: DevicePlan, allocations: dict[Key, Object]) -> tuple[ClaimWrite, ...]:
        groups, pod = self._state.groups, cycle.pod
        writes = [
            ClaimWrite(claim, allocations.get(key_of(claim)), groups.consumer(pod, entry))
            for entry, claim in zip(cycle.claims.entries, cycle.claims.claims, strict=True)
            if not is_reserved(claim, pod)
        ]
        if devices.extended is not None:
            claim = devices.extended.claim
            writes.append(ClaimWrite(claim, allocations[key_of(claim)], groups.consumer(pod, {}), special=True))
        return tuple(writes)


def results(devices: DevicePlan) -> dict[Key, Object]:
    """Allocations by the key of their claim."""
    allocation = devices.allocation
    return dict(zip(allocation.claims, allocation.results, strict=True)) if allocation is not None else {}


def all_devices(devices: DevicePlan) -> tuple[Object, ...]:
    """The device results of all claims."""
    return tuple(device for result in results(devices).values() for device in allocation_results(result))


def _status(rejection: Rejection) -> Status:
    if rejection.kind is RejectionKind.NO_SOLUTION:
        return CANNOT_ALLOCATE
    if rejection.kind is RejectionKind.UNDECIDED:
        return UNDECIDED
    error = rejection.kind is RejectionKind.FAULT
    return Status.of(DynamicResources.name, Code.ALLOCATION_ERROR, rejection.message, error=error)


NOT_AVAILABLE: Final = Status.of(DynamicResources.name, Code.CLAIM_NOT_AVAILABLE)
UNDECIDED: Final = Status.of(DynamicResources.name, Code.UNDECIDED, f"{ATTEMPT:,}")
