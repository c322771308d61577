"""Available partitions of a pool by type, and available shared capacity.

Either view can be impossible to give; the reason then goes into the pool's `validationError` in its place, under a
prefix that programs can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.allocation import counters
from dray.allocation.counters import CounterSets
from dray.allocation.devices import Device
from dray.allocation.slices import Slice
from dray.allocation.usage import Usage
from dray.api.objects import Object
from dray.api.quantity import Quantity

_MOST: Final = 32
_ZERO: Final = Quantity.of(0)


class ViewError(Exception):
    """A summary cannot be computed; the text says why."""


@dataclass(slots=True)
class _Group:
    """The devices of one partition type."""

    cost: frozenset[tuple[str, str, int]]
    total: int = 0
    unused: list[Device] = field(default_factory=list)


def partitions(slices: Sequence[Slice], usage: Usage, default: str) -> list[Object] | None:
    """Per type, how many devices there are and how many more could be allocated if no other type was.

    The attribute that tells the type is the one a slice names, or the default if no slice of the pool names one; None
    where there is no such attribute. Raises ViewError.
    """
    typed = list(_typed(slices, default))
    if not typed:
        return None
    pool = "/".join(slices[0].key)
    if not any(slice_.counter_sets for slice_ in slices):
        raise ViewError(
            f"PartitionTypeMissing: pool {pool} declares partitionTypeAttribute but publishes no sharedCounters"
        )
    groups = _groups(typed, usage, pool)
    if len(groups) > _MOST:
        raise ViewError(
            f"PartitionSummaryOverCap: pool {pool} has {len(groups)} partition types, exceeding the maximum of {_MOST}"
        )
    counter_sets = _counter_sets(slices, usage)
    return [
        {
            "attribute": attribute,
            "type": type_,
            "total": group.total,
            "allocatable": _fitting(group.unused, counter_sets) if counter_sets is not None else 0,
        }
        for (attribute, type_), group in sorted(groups.items())
    ]


def _attribute(slice_: Slice) -> str:
    return slice_.document["spec"].get("partitionTypeAttribute") or ""


def _typed(slices: Sequence[Slice], default: str) -> Iterator[tuple[Device, str]]:
    """Yields the devices that must have a type, with the attribute that names it."""
    if any(map(_attribute, slices)):
        default = ""
    for slice_ in slices:
        attribute = _attribute(slice_) or default
        if attribute:
            for device in slice_.devices:
                yield device, attribute


def _groups(typed: Iterable[tuple[Device, str]], usage: Usage, pool: str) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for device, attribute in typed:
        if not device.consumes:
            continue
        type_ = (device.published(attribute) or {}).get("string")
        if type_ is None:
            raise ViewError(
                f'PartitionTypeMissing: device "{device.name}" in pool {pool} does not carry '
                f'partition type attribute "{attribute}"'
            )
        cost = frozenset(
            (consumed.counter_set, counter, amount)
            for consumed in device.consumes
            for counter, amount in consumed.counters.items()
        )
        group = groups.setdefault((attribute, type_), _Group(cost))
        if group.cost != cost:
            raise ViewError(
                f'PartitionCostMismatch: devices of partition type "{type_}" in pool {pool} consume different counters'
            )
        group.total += 1
        if device.id not in usage.devices:
            group.unused.append(device)
    return groups


def _counter_sets(slices: Sequence[Slice], usage: Usage) -> CounterSets | None:
    """Returns the counters without what used devices draw; None if they are invalid: nothing is allocated then."""
    if counters.problem(slices, ()) is not None:
        return None
    counter_sets = CounterSets(slices)
    for slice_ in slices:
        for device in slice_.devices:
            counter_sets.follow(device.id, allocated=device.id in usage.devices)
    return counter_sets


def _fitting(devices: Sequence[Device], counter_sets: CounterSets) -> int:
    """Returns how many of the devices can be allocated one after the other."""
    left = list(counter_sets.left)
    number = 0
    for device in devices:
        cost = counter_sets.cost(device)
        if all(left[position] >= amount for position, amount in cost):
            number += 1
            for position, amount in cost:
                left[position] -= amount
    return number


def shareable(slices: Sequence[Slice], usage: Usage) -> Object | None:
    """Summarizes devices that allow multiple allocations; None if there are none. Raises ViewError."""
    devices = [device for slice_ in slices for device in slice_.devices if device.shareable]
    if not devices:
        return None
    totals: dict[str, Quantity] = {}
    for device in devices:
        for name, capacity in device.capacity.items():
            totals[name] = totals.get(name, _ZERO) + capacity.value
    pool = "/".join(slices[0].key)
    if len(totals) > _MOST:
        raise ViewError(
            f"ShareableSummaryOverCap: pool {pool} has {len(totals)} shareable capacity keys, "
            f"exceeding the maximum of {_MOST}"
        )
    consumed = _consumed(slices[0], usage)
    partial = sum(device.id in usage.devices for device in devices)
    summary: Object = {"fullyAvailableDevices": len(devices) - partial, "partiallyAvailableDevices": partial}
    if totals:
        summary["capacity"] = [
            _capacity(name, totals[name], consumed.get(name, _ZERO)) for name in sorted(totals, key=str.encode)
        ]
    return summary


def _consumed(slice_: Slice, usage: Usage) -> dict[str, Quantity]:
    """Returns the capacity that claims consume from the slice's pool, by capacity name."""
    consumed: dict[str, Quantity] = {}
    for device, held in usage.devices.items():
        if device[:2] == slice_.key:
            for name, amount in held.consumed.items():
                consumed[name] = consumed.get(name, _ZERO) + amount
    return consumed


def _capacity(name: str, total: Quantity, consumed: Quantity) -> Object:
    left = total - consumed
    available = left if left.sign() > 0 else _ZERO
    return {"name": name, "total": str(total), "consumed": str(consumed), "available": str(available)}
