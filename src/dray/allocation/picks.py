"""The picks of one search and what they use up: devices, shares, capacities, counters.

Every `take` has its `undo`; between the two nothing outside is changed. Whether a device fits is asked in the order
in which Kubernetes asks, so that the same answer is reached for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.allocation.capacity import Amounts
from dray.allocation.counters import CompatibilityGroups, CounterSets
from dray.allocation.devices import Device
from dray.allocation.requests import Choice, Request, Task
from dray.allocation.usage import Usage

SetKey = tuple[CounterSets, str]


@dataclass(slots=True)
class Pick:
    choice: Choice
    option: int
    rank: int
    charged: bool = False
    """Whether the pick draws from counters: the first share of a device does, later ones do not."""

    @property
    def request(self) -> Request:
        return self.choice.options[self.option]


class Picks:
    def __init__(self, task: Task, usage: Usage) -> None:
        self._view = task.view
        self._shareable = task.view.shareable
        self._shared = task.shared
        self._usage = usage
        self.made: list[Pick] = []
        self.taken = 0
        """Devices picked exclusively, for any claim."""
        self.taken_by = [0] * len(task.claims)
        self.sizes = [0] * len(task.claims)
        self.shares: dict[int, int] = {}
        self.tallies: dict[int, dict[str, int]] = {}
        """Capacity that the picked shares consume, by rank and capacity name, in nanos."""
        self.left: dict[CounterSets, list[int]] = {}
        self.compatibilities: dict[SetKey, list[CompatibilityGroups]] = {}

    # Questions

    def has_capacity(self, request: Request, rank: int) -> bool:
        amounts = request.amounts.get(rank)
        if not amounts:
            return True
        device = self._view.devices[rank]
        usage = self._usage.devices.get(device.id)
        consumed = usage.consumed if usage is not None else {}
        tally = self.tallies.get(rank, {})
        for name, amount in amounts.items():
            total = amount.nanos + tally.get(name, 0)
            if name in consumed:
                total += consumed[name].nanos
            if total > device.capacity[name].value.nanos:
                return False
        return True

    def capacity_left(self, rank: int) -> dict[str, int]:
        """Returns the remaining capacity of a device after other claims and the picks made so far, in nanos."""
        left = self.capacity_before(rank)
        for name, taken in self.tallies.get(rank, {}).items():
            left[name] -= taken
        return left

    def capacity_before(self, rank: int) -> dict[str, int]:
        """Returns the remaining capacity of a device after other claims, without the picks made so far, in nanos."""
        device = self._view.devices[rank]
        usage = self._usage.devices.get(device.id)
        left = {name: capacity.value.nanos for name, capacity in device.capacity.items()}
        for name, amount in usage.consumed.items() if usage is not None else ():
            if name in left:
                left[name] -= amount.nanos
        return left

    def draws(self, rank: int) -> bool:
        """Whether picking the device would draw from counters."""
        if rank not in self._view.counter_sets:
            return False
        return not (self._shareable >> rank & 1 and (self._shared >> rank & 1 or rank in self.shares))

    def has_counters(self, rank: int) -> bool:
        """Whether groups and counters admit the device."""
        if not self.draws(rank):
            return True
        counter_sets, device = self._view.counter_sets[rank], self._view.devices[rank]
        if counter_sets.grouped and self._view.gates["DRADeviceCompatibilityGroups"]:
            for consumed in device.consumes:
                if not self.compatibility(counter_sets, consumed.counter_set).admits(consumed.groups):
                    return False
        left = self.left.get(counter_sets) or counter_sets.left
        if counter_sets.overdrawn:
            return False
        return all(left[position] >= amount for position, amount in counter_sets.cost(device))

    def compatibility(self, counter_sets: CounterSets, counter_set: str) -> CompatibilityGroups:
        joined = self.compatibilities.get((counter_sets, counter_set))
        return joined[-1] if joined else counter_sets.compatibility(counter_set)

    # Changes

    def take(self, choice: Choice, option: int, rank: int) -> None:
        pick = Pick(choice, option, rank, self.draws(rank))
        request = choice.options[option]
        if pick.charged:
            self._charge(self._view.counter_sets[rank], self._view.devices[rank])
        for constraint in request.constraints:
            constraint.add(request, rank)
        if self._shareable >> rank & 1:
            self.shares[rank] = self.shares.get(rank, 0) + 1
            self._tally(request.amounts.get(rank), rank, 1)
        else:
            self.taken |= 1 << rank
            self.taken_by[choice.claim] |= 1 << rank
        self.sizes[choice.claim] += 1
        self.made.append(pick)

    def undo(self) -> None:
        pick = self.made.pop()
        rank, claim = pick.rank, pick.choice.claim
        self.sizes[claim] -= 1
        if self._shareable >> rank & 1:
            self._tally(pick.request.amounts.get(rank), rank, -1)
            self.shares[rank] -= 1
            if not self.shares[rank]:
                del self.shares[rank], self.tallies[rank]
        else:
            self.taken_by[claim] &= ~(1 << rank)
            if not any(bits >> rank & 1 for bits in self.taken_by):
                self.taken &= ~(1 << rank)
        for constraint in pick.request.constraints:
            constraint.remove()
        if pick.charged:
            self._refund(self._view.counter_sets[rank], self._view.devices[rank])

    def _tally(self, amounts: Amounts | None, rank: int, sign: int) -> None:
        tally = self.tallies.setdefault(rank, {})
        for name, amount in (amounts or {}).items():
            tally[name] = tally.get(name, 0) + sign * amount.nanos

    def _charge(self, counter_sets: CounterSets, device: Device) -> None:
        left = self.left.get(counter_sets)
        if left is None:
            left = self.left[counter_sets] = list(counter_sets.left)
        for position, amount in counter_sets.cost(device):
            left[position] -= amount
        for consumed in device.consumes if counter_sets.grouped else ():
            compatibility = self.compatibility(counter_sets, consumed.counter_set)
            self.compatibilities.setdefault((counter_sets, consumed.counter_set), []).append(
                compatibility.joined(consumed.groups)
            )

    def _refund(self, counter_sets: CounterSets, device: Device) -> None:
        left = self.left[counter_sets]
        for position, amount in counter_sets.cost(device):
            left[position] += amount
        for consumed in device.consumes if counter_sets.grouped else ():
            self.compatibilities[counter_sets, consumed.counter_set].pop()
