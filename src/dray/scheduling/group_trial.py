"""GroupTrial: pods of a group placed in thought, one after the other, each of which can be taken back.

A pod that finds no devices on a node where others of its group are gets them by arranging the devices of all of them
anew: pods that came first may have taken what only the last could use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dray.allocation import Work
from dray.allocation.devices import DeviceID
from dray.allocation.usage import device_of
from dray.scheduling.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.cycle import Cycle
from dray.scheduling.framework import Framework
from dray.scheduling.model import Node
from dray.scheduling.plugins.dynamic_resources import DynamicResources, all_devices
from dray.scheduling.queue import QueuedPod
from dray.scheduling.state import State
from dray.scheduling.status import Status

# Units of work for asking one node about one pod, beside the search for devices.
_STEP: Final = 60


@dataclass(eq=False, slots=True)
class Member:
    """A pod of a group that is to be placed."""

    queued: QueuedPod
    cycle: Cycle
    kind: Hashable
    """Equal for those that are interchangeable."""
    shares: bool
    """Whether it uses a claim that others of the group use too and that has no devices yet."""
    social: bool
    """Whether it depends on pods on other nodes."""
    placement: Placement | None = None


class GroupTrial:
    def __init__(
        self, state: State, framework: Framework, algorithm: SchedulingAlgorithm, devices: DynamicResources, work: Work
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._devices = devices
        self._work = work
        self._on: dict[int, list[Member]] = {}
        """Members by the node on which they are in thought."""
        self.error: Status | None = None
        """What a node said that cannot be judged."""

    def add(self, member: Member, node: Node) -> Status | None:
        """Raises WorkExhausted."""
        self._work.spend(_STEP)
        cycle = member.cycle
        if member.shares and (status := self._framework.prefilter(cycle)) is not None:
            return status
        answer = self._algorithm.fits(cycle, node)
        if isinstance(answer, Placement):
            self._assume(member, answer)
            return None
        if answer.error:
            self.error = answer
        if answer.plugin != self._devices.name or not cycle.claims.demand:
            return answer
        others = self._movable(node)
        return self._rearrange([*others, member], node, answer) if others else answer

    def _movable(self, node: Node) -> list[Member]:
        """Those on the node that could have other devices, but for the one whose devices others share elsewhere."""
        here = self._on.get(node.number, [])
        elsewhere = any(each.shares for number, on in self._on.items() if number != node.number for each in on)
        return [each for each in here if each.cycle.claims.demand and not (elsewhere and self._provides(each))]

    def _provides(self, member: Member) -> bool:
        """Whether it got the devices that it shares with others."""
        allocation = member.placement.devices.allocation if member.placement is not None else None
        return allocation is not None and not self._state.claims.shared.isdisjoint(allocation.claims)

    def _rearrange(self, members: Sequence[Member], node: Node, status: Status) -> Status | None:
        """All of them on the node, the last one too; `status` where that cannot be."""
        before = [(each, each.placement) for each in members[:-1]]
        for each in members[:-1]:
            self.remove(each)
        for each in members:
            self._renew(each)
        found = self._devices.filter_together([each.cycle for each in members], node)
        if not isinstance(found, Status):
            for each, (allocation, extended) in zip(members, found, strict=True):
                self._renew(each)
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

    def _renew(self, member: Member) -> None:
        """What it shares with others may have come or gone with them."""
        if member.shares:
            self.prepare(member)

    def _assume(self, member: Member, placement: Placement) -> None:
        self._algorithm.assume(placement)
        member.placement = placement
        self._on.setdefault(placement.node.number, []).append(member)

    def remove(self, member: Member) -> None:
        placement = member.placement
        if placement is None:
            return
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

    @contextmanager
    def without(self, devices: Iterable[DeviceID]) -> Iterator[None]:
        """As if the devices were in use."""
        if not devices:
            yield
            return
        inventory, key = self._state.inventory, ("", "<left out>")
        results = [{"driver": driver, "pool": pool, "device": device} for driver, pool, device in devices]
        inventory.follow(inventory.usage.hold(key, results))
        try:
            yield
        finally:
            inventory.follow(inventory.usage.release(key))

    def spread_devices(self, member: Member) -> list[DeviceID]:
        """Of the devices that the member got those that other nodes see too."""
        assert member.placement is not None
        found = dict.fromkeys(map(device_of, all_devices(member.placement.devices)))
        return [each for each in found if self._state.inventory.viewers(each) is None]
