"""GroupTrial: pods of a group placed in thought, one after the other, each of which can be taken back.

A pod that finds no devices on a node where others of its group are gets them by arranging the devices of all of them
anew: pods that came first may have taken what only the last could use.

Devices can be left out of what a pod may get, those for claims that it shares with others and its own apart: so each
way to give it devices that other nodes see too can be tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dray.allocation import Allocation, Work
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

# Units of work for asking one node about one pod, beside the search for devices.
_STEP: Final = 60
LeftOut = frozenset[tuple[bool, DeviceID]]
"""Devices that a pod is not to get; True for those that are meant for the claims it shares."""
NOTHING_LEFT_OUT: Final[LeftOut] = frozenset()


@dataclass(eq=False, slots=True)
class Member:
    """A pod of a group that is to be placed."""

    queued: QueuedPod
    cycle: Cycle
    kind: Hashable
    """Equal for those that are interchangeable."""
    shares: bool
    """Whether it uses a claim that others of the group use too and that has no devices yet."""
    depends_on_pods: bool
    """Whether it depends on pods on other nodes."""
    placement: Placement | None = None


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
        """Members by the node on which they are in thought."""
        self.revision = 0
        """Changes with every pod that comes to a node or leaves one."""
        self.error: Status | None = None
        """What a node said that cannot be judged."""

    def step(self) -> None:
        """Something is tried that takes work. Raises WorkExhausted."""
        self._work.spend(_STEP)

    def add(self, member: Member, node: Node, left_out: LeftOut = NOTHING_LEFT_OUT) -> Status | None:
        """Raises WorkExhausted."""
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
        """Whether the queue of the pod has too little left for it, whichever devices it gets on the node."""
        asked = member.cycle.data.get(QueueQuota.name)
        return isinstance(asked, QueuedAsk) and asked.policy.short(asked.ask, node) is not None

    def _is_mixed(self, member: Member) -> bool:
        """Whether it needs devices for claims that it shares, and for others of its own."""
        claims, shared = member.cycle.claims, self._state.claims.shared
        number = sum(key_of(each) in shared for each in claims.unallocated)
        return 0 < number < len(claims.unallocated) and not claims.demand.extended

    def _in_parts(self, cycle: Cycle, node: Node, left_out: LeftOut) -> Placement | Status:
        """Devices for the claims that it shares first, and then for its own."""
        claims, shared = cycle.claims, self._state.claims.shared
        parts, held = [], list[Object]()
        try:
            for part in (True, False):
                own = tuple(each for each in claims.unallocated if (key_of(each) in shared) is part)
                cycle.claims = replace(claims, unallocated=own, demand=NO_DEMAND)
                with self._without(each for each in left_out if each[0] is part), self._holding("<own>", held):
                    answer = self._algorithm.fits(cycle, node)
                if isinstance(answer, Status):
                    return answer
                assert answer.devices.allocation is not None
                parts.append(answer.devices.allocation)
                held += [each for result in parts[-1].results for each in allocation_results(result)]
        finally:
            cycle.claims = claims
        keys, found = (
            [each for part in parts for each in part.claims],
            [each for part in parts for each in part.results],
        )
        merged = Allocation(parts[0].node, tuple(keys), tuple(found))
        if (status := self._devices.plan(cycle, node, merged, None)) is not None:
            return status
        assert cycle.devices is not None
        return Placement(node, cycle, cycle.devices)

    def _movable(self, node: Node) -> list[Member]:
        """Those on the node that could have other devices; whoever got devices that others share first."""
        here = [each for each in self._on.get(node.number, ()) if each.cycle.claims.demand]
        return sorted(here, key=lambda each: not self._provided(each))

    def _provided(self, member: Member) -> dict[Key, Object]:
        """What it got for claims that it shares with others."""
        shared = self._state.claims.shared
        found = results(member.placement.devices) if member.placement is not None else {}
        return {key: result for key, result in found.items() if key in shared}

    def _rearrange(self, members: Sequence[Member], node: Node, status: Status) -> Status | None:
        """All of them on the node, the last one too; `status` where that cannot be."""
        before = [(each, each.placement) for each in members[:-1]]
        elsewhere = any(each.shares for number, on in self._on.items() if number != node.number for each in on)
        kept = {id(each): self._provided(each) for each in members[:-1]} if elsewhere else {}
        for each in members[:-1]:
            self.remove(each)
        found = self._together(members, node, {key: result for mine in kept.values() for key, result in mine.items()})
        if not isinstance(found, Status):
            for each, (allocation, extended) in zip(members, found, strict=True):
                self._renew(each)
                allocation = _joined(node, kept.get(id(each), {}), allocation)
                if self._devices.plan(each.cycle, node, allocation, extended) is not None:
                    break
                assert each.cycle.devices is not None
                self._assume(each, Placement(node, each.cycle, each.cycle.devices))
            else:
                return None
        for each in members:
            self.remove(each)
        for each, placement in before:
            assert placement is not None
            self._renew(each)
            self._assume(each, placement)
        return status

    def _together(self, members: Sequence[Member], node: Node, kept: Mapping[Key, Object]) -> list[Found] | Status:
        """Devices for all of them; what pods elsewhere share stays as it is."""
        for each in members:
            self._renew(each)
            if kept:
                claims = each.cycle.claims
                rest = tuple(claim for claim in claims.unallocated if key_of(claim) not in kept)
                each.cycle.claims = replace(claims, unallocated=rest)
        with self._holding("<kept>", [each for result in kept.values() for each in allocation_results(result)]):
            return self._devices.filter_together([each.cycle for each in members], node)

    def _renew(self, member: Member) -> None:
        """What it shares with others may have come or gone with them."""
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
        """Places members once more on the nodes where they are, since something changed there; False where they do not
        fit any more, and then they are as they were."""
        before = [(each, each.placement) for each in members if each.placement is not None]
        for each, _ in before:
            self.remove(each)
        for each, placement in before:
            assert placement is not None
            if self.add(each, placement.node) is not None:
                break
        else:
            return True
        for each, _ in before:
            self.remove(each)
        for each, placement in before:
            assert placement is not None
            self._renew(each)
            self._assume(each, placement)
        return False

    def placed(self) -> int:
        return sum(map(len, self._on.values()))

    def prepare(self, member: Member) -> None:
        """What the member's claims have got by now, and which nodes it can go to because of that."""
        self._framework.prefilter(member.cycle)

    def _without(self, left_out: Iterable[tuple[bool, DeviceID]]) -> AbstractContextManager[None]:
        """As if the devices were in use."""
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
        """Of the devices that the member got those that other nodes see too."""
        assert member.placement is not None
        shared, viewers = self._state.claims.shared, self._state.inventory.viewers
        by_claim = results(member.placement.devices)
        mixed = any(key in shared for key in by_claim) and any(key not in shared for key in by_claim)
        found = {
            (mixed and key in shared, device_of(each)): None
            for key, result in by_claim.items()
            for each in allocation_results(result)
        }
        return [each for each in found if viewers(each[1]) is None]


def _joined(node: Node, kept: Mapping[Key, Object], allocation: Allocation | None) -> Allocation | None:
    if not kept:
        return allocation
    own = (allocation.claims, allocation.results) if allocation is not None else ((), ())
    return Allocation(node.name, (*kept, *own[0]), (*kept.values(), *own[1]))
