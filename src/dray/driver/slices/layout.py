"""Layout of a pool: which devices and counter sets stand in which slice.

A slice holds up to 128 devices, or 64 if one of them has taints, consumes counters or has an attribute with several
values; counter sets stand in slices of their own, eight in each, before the devices. Devices stay in the order in
which they are declared. A device keeps the slice it was in where that is possible, so that a device that comes or
goes changes few slices; when that has left twice as many slices as are needed, the pool is laid out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dray.api.objects import Object
from dray.driver.devices import Device, Pool
from dray.driver.errors import InvalidPools

MAX_DEVICES: Final = 128
MAX_DEVICES_ADVANCED: Final = 64
MAX_COUNTER_SETS: Final = 8

_Slices = list[list[Device]]


def check(pool: Pool) -> None:
    """Raises InvalidPools for what the API server does not see, because it looks at one slice at a time."""
    seen: set[str] = set()
    for device in pool.all_devices():
        if device.name in seen:
            raise InvalidPools(f"pool {pool.name}: device {device.name} is declared twice")
        seen.add(device.name)
        for name, counters in device.consumes_counters.items():
            if name not in pool.counters:
                raise InvalidPools(
                    f"pool {pool.name}: device {device.name} consumes from {name}, which is no counter set"
                )
            for counter in counters:
                if counter not in pool.counters[name]:
                    raise InvalidPools(
                        f"pool {pool.name}: device {device.name} consumes {counter}, which counter set {name} has not"
                    )
        if bool(device.nodes) != pool.per_device_node_selection:
            raise InvalidPools(
                f"pool {pool.name}: device {device.name}: `nodes` and `per_device_node_selection` need each other"
            )


def contents(pool: Pool, previous: Mapping[str, int], *, may_taint: bool = False) -> list[Object]:
    """The members of each slice's spec that make its content.

    `previous` has the index of the slice in which a device is now. With `may_taint` there is room for taints on any
    device.
    """
    sets = pool.counter_sets()
    counters = [sets[start : start + MAX_COUNTER_SETS] for start in range(0, len(sets), MAX_COUNTER_SETS)]
    made: list[Object] = [{"sharedCounters": chunk} for chunk in counters]
    for devices in _assign(pool.groups(), previous, len(made), may_taint):
        content: Object = {"devices": [device.document() for device in devices]}
        if pool.partition_type_attribute and any(device.consumes_counters for device in devices):
            content["partitionTypeAttribute"] = pool.partition_type_attribute
        made.append(content)
    # A pool without devices is there all the same: the driver is up, and has nothing.
    return made or [{}]


def _assign(groups: Iterable[Sequence[Device]], previous: Mapping[str, int], first: int, may_taint: bool) -> _Slices:
    kept: _Slices = []
    fresh: _Slices = []
    for group in groups:
        kept += _fill(group, previous, first + len(kept), may_taint)
        if previous:
            fresh += _fill(group, {}, 0, may_taint)
    return fresh if previous and len(kept) >= 2 * len(fresh) else kept


def _fill(devices: Sequence[Device], previous: Mapping[str, int], first: int, may_taint: bool) -> _Slices:
    slices: list[_Filling] = [_Filling(may_taint)]
    current = 0
    for device in devices:
        current = max(current, previous.get(device.name, 0) - first)
        while len(slices) <= current:
            slices.append(_Filling(may_taint))
        if not slices[current].add(device):
            current += 1
            if len(slices) <= current:
                slices.append(_Filling(may_taint))
            slices[current].add(device)
    return [slice_.devices for slice_ in slices if slice_.devices]


class _Filling:
    """A slice that is being filled; `is_advanced` if the lower limit counts for it."""

    def __init__(self, is_advanced: bool) -> None:
        self.devices: list[Device] = []
        self._is_advanced = is_advanced

    def add(self, device: Device) -> bool:
        """Whether it fits."""
        advanced = self._is_advanced or bool(device.taints or device.consumes_counters or device.has_lists)
        if len(self.devices) >= (MAX_DEVICES_ADVANCED if advanced else MAX_DEVICES):
            return False
        self._is_advanced = advanced
        self.devices.append(device)
        return True
