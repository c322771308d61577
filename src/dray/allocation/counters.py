"""Shared counters of a pool: what is left of each, and which groups of devices may draw from a set together.

`CounterSets` are those of one complete set of slices of a pool and follow every claim: what allocated devices draw is
charged once per device, however many shares it has. A counter that is overdrawn blocks every device of the pool that
draws from counters at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.allocation.devices import Device, DeviceID
from dray.allocation.slices import Slice

Cost = tuple[tuple[int, int], ...]
"""(counter, nanos) pairs."""


@dataclass(frozen=True, slots=True)
class CompatibilityGroups:
    """The compatibility groups of the devices that draw from one counter set.

    The first of them decides whether the set is for devices with groups or without. Those that draw from it already
    may contradict it, since slices change; one without groups then leaves it as it is.
    """

    occupied: bool = False
    common: frozenset[str] = frozenset()
    """Compatibility groups that are common to all devices that have any."""
    groupless: bool = False

    def admits(self, groups: frozenset[str]) -> bool:
        if not self.occupied:
            return True
        return not self.common.isdisjoint(groups) if groups and not self.groupless else self.groupless and not groups

    def joined(self, groups: frozenset[str]) -> CompatibilityGroups:
        if not self.occupied:
            return CompatibilityGroups(True, groups, not groups)
        return self if self.groupless or not groups else CompatibilityGroups(True, self.common & groups)


NONE_DRAW = CompatibilityGroups()


class CounterSets:
    """The counter sets of a pool: what is left of each counter, and who draws from them."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self.names: list[tuple[str, str]] = []
        self.left: list[int] = []
        for slice_ in slices:
            for set_name, counters in slice_.counter_sets.items():
                for counter, total in counters.items():
                    self.names.append((set_name, counter))
                    self.left.append(total)
        self.totals = tuple(self.left)
        self._index = {name: position for position, name in enumerate(self.names)}
        self._devices: dict[DeviceID, list[Device]] = {}
        self._costs: dict[int, Cost] = {}
        self._published = [device for slice_ in slices for device in slice_.devices if device.consumes]
        for device in self._published:
            self._devices.setdefault(device.id, []).append(device)
        self.grouped = any(consumed.groups for device in self._published for consumed in device.consumes)
        """Whether any of its devices has groups."""
        self.charged: set[DeviceID] = set()
        self._compatibilities: dict[str, CompatibilityGroups] | None = None

    def cost(self, device: Device) -> Cost:
        """Returns what the device draws, as pairs of counter position and amount."""
        cost = self._costs.get(id(device))
        if cost is None:
            amounts: dict[int, int] = {}
            for consumed in device.consumes:
                for counter, amount in consumed.counters.items():
                    position = self._index[consumed.counter_set, counter]
                    amounts[position] = amounts.get(position, 0) + amount
            cost = self._costs[id(device)] = tuple(sorted(amounts.items()))
        return cost

    @property
    def overdrawn(self) -> bool:
        return min(self.left, default=0) < 0

    def follow(self, device: DeviceID, *, allocated: bool) -> None:
        """Charges a device that was allocated, or refunds one that was released."""
        if allocated == (device in self.charged) or device not in self._devices:
            return
        (self.charged.add if allocated else self.charged.discard)(device)
        sign = -1 if allocated else 1
        for published in self._devices[device]:
            for position, amount in self.cost(published):
                self.left[position] += sign * amount
        self._compatibilities = None

    def compatibility(self, counter_set: str) -> CompatibilityGroups:
        """Returns the compatibility groups of the devices that draw from the set now."""
        if not self.grouped:
            return NONE_DRAW
        if self._compatibilities is None:
            self._compatibilities = self._gather()
        return self._compatibilities.get(counter_set, NONE_DRAW)

    def _gather(self) -> dict[str, CompatibilityGroups]:
        """Collects the groups in the order of publication: the first device decides."""
        compatibilities: dict[str, CompatibilityGroups] = {}
        for device in self._published:
            if device.id in self.charged:
                for consumed in device.consumes:
                    known = compatibilities.get(consumed.counter_set, NONE_DRAW)
                    compatibilities[consumed.counter_set] = known.joined(consumed.groups)
        return compatibilities


def problem(targeting: Iterable[Slice], others: Iterable[Slice]) -> str | None:
    """Returns why the pool's counters are invalid: a set published twice, or a missing one; None if they are valid."""
    sets: dict[str, dict[str, int]] = {}
    targeting, others = list(targeting), list(others)
    for slice_ in [*targeting, *others]:
        for name in slice_.set_names:
            if name in sets or slice_.set_names.count(name) > 1:
                return f"duplicate counter set name {name}"
            sets[name] = slice_.counter_sets[name]
    for slice_ in [*targeting, *others]:
        for device in slice_.devices:
            for consumed in device.consumes:
                if consumed.counter_set not in sets:
                    return f"counter set {consumed.counter_set} not found"
                for counter in consumed.counters:
                    if counter not in sets[consumed.counter_set]:
                        return f"counter {counter} not found in counter set {consumed.counter_set}"
    return None
