"""What a selector found on devices that it does not select: the values that its failed conditions read.

Of a selector whose conditions are joined by `&&` only the first that a device does not meet is looked at, and of that
the attributes and capacities it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dray.allocation.devices import Device, DeviceID, read_values
from dray.allocation.inventory import Inventory
from dray.cel import CompileError, Reads, compile_selector
from dray.cel.lexer import conditions


@dataclass(frozen=True)
class Encounter:
    """An attribute or capacity that a selector read, with its values on refused devices."""

    name: str
    """An attribute or capacity, without its domain where that is the driver's, or `driver`."""
    values: tuple[tuple[str, int], ...]
    """Values as CEL literals with their number of devices, most frequent first; empty if the attribute is absent."""


def encounters(inventory: Inventory, expression: str, devices: Sequence[DeviceID]) -> tuple[Encounter, ...]:
    """Returns what the selector read on the devices that it does not select."""
    left = [device for each in devices if (device := inventory.device(each)) is not None]
    met: dict[str, Counter[str]] = {}
    for condition in conditions(expression):
        column = inventory.selectors.column(condition, left)
        refused = [device for rank, device in enumerate(left) if not column.selected >> rank & 1]
        left = [device for rank, device in enumerate(left) if column.selected >> rank & 1]
        for device in refused:
            for name, value in _read(condition, device):
                met.setdefault(name, Counter())[value] += 1
    return tuple(Encounter(name, tuple(values.most_common())) for name, values in met.items())


def _read(condition: str, device: Device) -> Iterator[tuple[str, str]]:
    try:
        reads: Reads = compile_selector(condition).reads
    except CompileError:
        return
    if reads.driver:
        yield "driver", _written(device.driver)
    for domain, name in sorted(reads.attributes, key=str):
        if name is not None:
            yield _title(domain, name, device), _attribute(device, domain, name)
    for domain, name in sorted(reads.capacities, key=str):
        if name is not None:
            found = device.capacity.get(f"{domain}/{name}") or (
                device.capacity.get(name) if domain == device.driver else None
            )
            yield _title(domain, name, device), "" if found is None else str(found.value)


def _title(domain: str, name: str, device: Device) -> str:
    return name if domain == device.driver else f"{domain}/{name}"


def _attribute(device: Device, domain: str, name: str) -> str:
    published = device.published(f"{domain}/{name}")
    if published is None:
        return ""
    values = sorted((_written(value) for _, value in read_values(published)), key=str)
    is_list = any(member.endswith("s") for member in published)
    return f"[{', '.join(values)}]" if is_list else ", ".join(values)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
