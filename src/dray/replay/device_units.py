"""Device units: what each device of a cluster is worth, in thousandths of a physical device.

A device without counters is a physical device by itself. Devices that draw from one counter set are partitions of one
physical device; a partition is worth its part of the counter `memory`, or of its largest counter if there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dray.api.objects import Object
from dray.api.quantity import Quantity

WHOLE = 1000
"""The units of a physical device."""
DeviceName = tuple[str, str, str]
"""Driver, pool and name of a device."""


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    physical: DeviceName
    """The device, or the counter set that it draws from."""
    units: int
    """The units that the device counts if all of it is allocated."""
    node: str
    model: str
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Amounts of its capacities in billionths."""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def taken(self, consumed: Mapping[str, str] | None) -> int:
        """The units of an allocation that consumes these capacities; all of them if it names none."""
        parts = [
            Quantity.parse(str(amount)).nanos * WHOLE // self.capacity[name]
            for name, amount in (consumed or {}).items()
            if self.capacity.get(name)
        ]
        return max(parts) if parts else self.units


def published_devices(slices: Iterable[Object]) -> dict[DeviceName, PublishedDevice]:
    slices = list(slices)
    totals: dict[tuple[str, str, str], dict[str, int]] = {}
    for each in slices:
        spec = each["spec"]
        for counters in spec.get("sharedCounters") or ():
            amounts = {name: _nanos(counter) for name, counter in counters["counters"].items()}
            totals[spec["driver"], spec["pool"]["name"], counters["name"]] = amounts
    found = {}
    for each in slices:
        spec = each["spec"]
        for device in spec.get("devices") or ():
            name = (spec["driver"], spec["pool"]["name"], device["name"])
            found[name] = _published(spec, name, device, totals)
    return found


def _published(
    spec: Object, name: DeviceName, device: Object, totals: Mapping[tuple[str, str, str], Mapping[str, int]]
) -> PublishedDevice:
    consumes = device.get("consumesCounters") or ()
    physical, units = name, WHOLE
    if consumes:
        physical = (*name[:2], consumes[0]["counterSet"])
        parts = {
            counter: _nanos(amount) * WHOLE / total
            for counter, amount in consumes[0]["counters"].items()
            if (total := totals.get(physical, {}).get(counter))
        }
        units = round(parts["memory"] if "memory" in parts else max(parts.values(), default=WHOLE))
    attributes = {
        key: str(value["string"]) for key, value in (device.get("attributes") or {}).items() if "string" in value
    }
    model = attributes.get("model") or attributes.get("productName", "")
    capacity = {key: _nanos(value) for key, value in (device.get("capacity") or {}).items()}
    return PublishedDevice(physical, units, spec.get("nodeName", ""), model, capacity, attributes)


def _nanos(value: Object) -> int:
    return Quantity.parse(str(value["value"])).nanos
