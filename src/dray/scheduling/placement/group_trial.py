"""GroupTrial: assumes pods of a group on nodes, one after the other, and can undo each of them.

If a pod finds no devices on a node with other pods of its group, devices are searched again for all of these pods
together: the first pods may have taken devices that only the last pod can use.

Devices can be excluded for a pod, for shared claims and for its own claims separately. This way all combinations of
devices that several nodes reach can be tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dray.allocation import Allocation, Work, WorkExhausted
from dray.allocation.devices import DeviceID
from dray.allocation.usage import device_of
from dray.api.objects import Key, Object, key_of
from dray.api.resource_claims import allocation_results
from dray.scheduling.cluster.device_demand import NO_DEMAND
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.model.node import Node
from dray.scheduling.model.status import Status
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.plugins.dynamic_resources import DynamicResources, Found, results
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota
from dray.scheduling.waiting.queued_pods import QueuedPod

# Units of work for filtering one node for one pod, without the search for devices.
_STEP: Final = 60
LeftOut = frozenset[tuple[bool, DeviceID]]
"""Devices that a pod must not get; True if that is for its shared claims, False for its own claims."""
NOTHING_LEFT_OUT: Final[LeftOut] = frozenset()


@dataclass(eq=False, slots=True)
class Member:
    """A pod of a group that is to be placed."""

    queued: QueuedPod
    cycle: Cycle
    kind: Hashable
    """A key that is equal for interchangeable pods."""
    shares: bool
    """Whether the pod uses an unallocated claim that other pods of the group use too."""
    depends_on_pods: bool
    """Whether filters of the pod depend on pods on other nodes."""
    placement: Placement | None = None
    """The node and devices on which the pod is assumed; None if it is not placed."""


class GroupTrial:
    def __init__(
        self,
        state: State,
        framework: Framework,
        algorithm: SchedulingAlgorithm,
        devices: DynamicResources,
        work: Work,
        changes: Trial,
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._devices = devices
        self._work = work
        self._changes = changes
        self._on: dict[int, list[Member]] = {}
        """The members that are assumed on a node, by node number."""
        self.revision = 0
        """Incremented when a member is added to or removed from a node."""
        self.error: Status | None = None
        """The last error of a filter, which ends the attempt."""

    def step(self) -> None:
        """Spends the work of one step. Raises WorkExhausted."""
        self._work.spend(_STEP)

    def add(self, member: Member, node: Node, left_out: LeftOut = NOTHING_LEFT_OUT) -> Status | None:
        """Assumes the member on the node; returns the rejection if it does not fit. Raises WorkExhausted."""
        self.step()
        if member.shares and (status := self._framework.prefilter(member.cycle)) is not None:
            return status
        if left_out and self._is_mixed(member):
            answer = self._in_parts(member.cycle, node, left_out)
            if isinstance(answer, Placement):
                self._assume(member, answer)
            return answer if isinstance(answer, Status) else None
        with self._without(left_out):
            return self._add(member, node)

    def _add(self, member: Member, node: Node) -> Status | None:
        answer = self._algorithm.fits(member.cycle, node)
        if isinstance(answer, Placement):
            self._assume(member, answer)
            return None
        if answer.error:
            self.error = answer
        if answer.plugin != self._devices.name or not member.cycle.claims.demand:
            return answer
        others = self._movable(node)
        return self._rearrange([*others, member], node, answer) if others else answer

    def lacks_quota(self, member: Member, node: Node) -> bool:
        """Whether the queue of the pod has too little quota for it on the node, whichever devices it gets."""
        asked = member.cycle.data.get(QueueQuota.name)
        return isinstance(asked, QueuedAsk) and asked.policy.short(asked.ask, node) is not None

    def _is_mixed(self, member: Member) -> bool:
        """Whether the pod needs devices for shared claims and for claims of its own."""
        claims, shared = member.cycle.claims, self._state.claims.shared
        number = sum(key_of(claim) in shared for claim in claims.unallocated)
        return 0 < number < len(claims.unallocated) and not claims.demand.extended

    def _in_parts(self, cycle: Cycle, node: Node, left_out: LeftOut) -> Placement | Status:
        """Searches for devices for the shared claims first, and then for the pod's own claims."""
        claims, shared = cycle.claims, self._state.claims.shared
        parts, held = [], list[Object]()
        try:
            for part in (True, False):
                own = tuple(claim for claim in claims.unallocated if (key_of(claim) in shared) is part)
                cycle.claims = replace(claims, unallocated=own, demand=NO_DEMAND)
                with self._without(device for device in left_out if device[0] is part), self._holding("<own>", held):
                    answer = self._algorithm.fits(cycle, node)
                if isinstance(answer, Status):
                    return answer
                assert answer.devices.allocation is not None
                parts.append(answer.devices.allocation)
                held += [device for result in parts[-1].results for device in allocation_results(result)]
        finally:
            cycle.claims = claims
        keys, found = (
            [key for part in parts for key in part.claims],
            [result for part in parts for result in part.results],
        )
        merged = Allocation(parts[0].node, tuple(keys), tuple(found))
        if (status := self._devices.plan(cycle, node, merged, None)) is not None:
            return status
        assert cycle.devices is not None
        return Placement(node, cycle, cycle.devices)

    def _movable(self, node: Node) -> list[Member]:
        """Returns the members on the node that could get other devices; members that got devices of shared claims
        first."""
        here = [member for member in self._on.get(node.number, ()) if member.cycle.claims.demand]
        return sorted(here, key=lambda member: not self._provided(member))

    def _provided(self, member: Member) -> dict[Key, Object]:
        """Returns the allocations of shared claims that were found for the member, by claim."""
        shared = self._state.claims.shared
        found = results(member.placement.devices) if member.placement is not None else {}
        return {key: result for key, result in found.items() if key in shared}

    def _rearrange(self, members: Sequence[Member], node: Node, status: Status) -> Status | None:
        """Places all members on the node, of which the last is not placed yet; returns `status` if that is
        impossible."""
        before = self.placements(members[:-1])
        elsewhere = any(member.shares for number, on in self._on.items() if number != node.number for member in on)
        kept = {id(member): self._provided(member) for member in members[:-1]} if elsewhere else {}
        for member in members[:-1]:
            self.remove(member)
        found = self._together(members, node, {key: result for mine in kept.values() for key, result in mine.items()})
        if not isinstance(found, Status):
            for member, (allocation, extended) in zip(members, found, strict=True):
                self._renew(member)
                allocation = _joined(node, kept.get(id(member), {}), allocation)
                if self._devices.plan(member.cycle, node, allocation, extended) is not None:
                    break
                assert member.cycle.devices is not None
                self._assume(member, Placement(node, member.cycle, member.cycle.devices))
            else:
                return None
        self._put_back(members, before)
        return status

    def _together(self, members: Sequence[Member], node: Node, kept: Mapping[Key, Object]) -> list[Found] | Status:
        """Searches for devices for all members on one node. Shared claims that pods on other nodes use keep their
        devices (`kept`)."""
        for member in members:
            self._renew(member)
            if kept:
                claims = member.cycle.claims
                rest = tuple(claim for claim in claims.unallocated if key_of(claim) not in kept)
                member.cycle.claims = replace(claims, unallocated=rest)
        with self._holding("<kept>", [device for result in kept.values() for device in allocation_results(result)]):
            return self._devices.filter_together([member.cycle for member in members], node)

    def _renew(self, member: Member) -> None:
        """Prepares a member again that shares claims: these may have been allocated or released meanwhile."""
        if member.shares:
            self.prepare(member)

    def _assume(self, member: Member, placement: Placement) -> None:
        self.revision += 1
        self._algorithm.assume(placement)
        member.placement = placement
        self._on.setdefault(placement.node.number, []).append(member)
        self._changes.record(("member", member.queued.pod.uid), partial(self._displace, member, placement))

    def remove(self, member: Member) -> None:
        if member.placement is not None:
            self._changes.take_back(("member", member.queued.pod.uid))

    def _displace(self, member: Member, placement: Placement) -> None:
        self.revision += 1
        member.placement = None
        self._on[placement.node.number].remove(member)
        self._algorithm.take_back(placement)

    def undo(self) -> None:
        for members in list(self._on.values()):
            for member in reversed(list(members)):
                self.remove(member)

    def renew(self, members: Sequence[Member]) -> bool:
        """Places members again on their nodes, after something changed there. Returns False if they do not fit any
        more, or if the work budget is spent; then their placements are unchanged."""
        before = self.placements(members)
        for member, _ in before:
            self.remove(member)
        try:
            if all(self.add(member, placement.node) is None for member, placement in before):
                return True
        except WorkExhausted:
            pass
        self._put_back(members, before)
        return False

    def placements(self, members: Iterable[Member]) -> list[tuple[Member, Placement]]:
        """Returns the members that are placed, with their placements."""
        return [(member, member.placement) for member in members if member.placement is not None]

    def put_back(self, before: Sequence[tuple[Member, Placement]]) -> None:
        """Places exactly these members, as they were placed before."""
        self.undo()
        self._put_back((), before)

    def _put_back(self, members: Iterable[Member], before: Iterable[tuple[Member, Placement]]) -> None:
        """Places members again as they were placed before."""
        for member in members:
            self.remove(member)
        for member, placement in before:
            self._renew(member)
            self._assume(member, placement)

    def placed(self) -> int:
        return sum(map(len, self._on.values()))

    def prepare(self, member: Member) -> None:
        """Runs the prefilter again, which reads the claims of the member and the nodes where they can be used."""
        self._framework.prefilter(member.cycle)

    def _without(self, left_out: Iterable[tuple[bool, DeviceID]]) -> AbstractContextManager[None]:
        """Holds the devices, so that they count as in use until the context ends."""
        found = [{"driver": driver, "pool": pool, "device": device} for _, (driver, pool, device) in left_out]
        return self._holding("<left out>", found)

    @contextmanager
    def _holding(self, name: str, results: list[Object]) -> Iterator[None]:
        if not results:
            yield
            return
        self._changes.hold(name, results)
        try:
            yield
        finally:
            self._changes.take_back(("held", name))

    def spread_devices(self, member: Member) -> list[tuple[bool, DeviceID]]:
        """Returns the devices of the member that several nodes reach."""
        assert member.placement is not None
        shared, viewers = self._state.claims.shared, self._state.inventory.viewers
        by_claim = results(member.placement.devices)
        mixed = any(key in shared for key in by_claim) and any(key not in shared for key in by_claim)
        found = {
            (mixed and key in shared, device_of(device)): None
            for key, result in by_claim.items()
            for device in allocation_results(result)
        }
        return [device for device in found if viewers(device[1]) is None]


def _joined(node: Node, kept: Mapping[Key, Object], allocation: Allocation | None) -> Allocation | None:
    if not kept:
        return allocation
    own = (allocation.claims, allocation.results) if allocation is not None else ((), ())
    return Allocation(node.name, (*kept, *own[0]), (*kept.values(), *own[1]))
