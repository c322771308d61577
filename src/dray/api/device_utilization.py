"""Utilization of an allocated device, as a driver reports it in `status.devices[].data.utilization` of the claim.

    utilization: {percent: 85, memoryUsedBytes: 1073741824, observedAt: "...", idleSince: "..."}

`percent` and `memoryUsedBytes` are missing where the device does not tell. `idleSince` is there once the device was
below 5 % for some minutes. A device that several claims share has the same report in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import Object, mapping, mappings

KEY: Final = "utilization"
IDLE_PERCENT: Final = 5
"""Devices with less utilization than this are idle."""


@dataclass(frozen=True, slots=True)
class Utilization:
    percent: int | None = None
    memory_used: int | None = None
    """Memory in use, in bytes."""
    observed_at: str = ""
    idle_since: str = ""

    def document(self) -> Object:
        made = {
            "percent": self.percent,
            "memoryUsedBytes": self.memory_used,
            "observedAt": self.observed_at,
            "idleSince": self.idle_since,
        }
        return {name: value for name, value in made.items() if value not in (None, "")}


def reported(entry: Mapping[str, Any]) -> Utilization | None:
    """Reads an entry of `status.devices`; returns None if it has no report. Drivers of others may write anything."""
    found = mapping(mapping(entry.get("data")).get(KEY))
    percent, memory = _number(found.get("percent"), 100), _number(found.get("memoryUsedBytes"), 2**63)
    if percent is None and memory is None:
        return None
    observed, idle = found.get("observedAt"), found.get("idleSince")
    return Utilization(percent, memory, *(value if isinstance(value, str) else "" for value in (observed, idle)))


def reports_of(claim: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Utilization]]:
    """Yields (driver, pool, device) and report of each device of the claim that has one."""
    for entry in mappings(mapping(claim.get("status")).get("devices")):
        if (found := reported(entry)) is not None:
            yield (str(entry.get("driver")), str(entry.get("pool")), str(entry.get("device"))), found


def _number(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
