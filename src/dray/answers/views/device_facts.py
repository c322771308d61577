"""Describes a device in a few words, from the attributes and capacity that its driver publishes."""

from __future__ import annotations

from typing import Any, Final

from dray.allocation.device_states import amounts
from dray.answers.views.layout import Layout
from dray.api.objects import Object, mapping

# The first of these attributes that a device has is its kind.
_KINDS: Final = ("profile", "productName", "tpuGen", "model", "dra.net/pciDevice", "dra.net/ifName", "type")
_CPUS: Final = "dra.cpu/cpu"
_AMOUNTS: Final = ("memory", "shares", _CPUS)
_STANDARD: Final = "resource.kubernetes.io"


def attribute(device: Object, *names: str) -> str:
    """Returns the first of these attributes that the device has; `-` if it has none."""
    attributes = mapping(device.get("attributes"))
    found = next((mapping(attributes[name]) for name in names if name in attributes), {})
    return str(next(iter(found.values()), "-"))


def kind(device: Object) -> str:
    """Returns the product name or profile of a device, or the like; `-` if it has none."""
    found = attribute(device, *_KINDS)
    cpus = amounts(device).get(_CPUS) if found == "-" else None
    return f"{cpus} CPUs" if cpus else found


def place(device: Object) -> tuple[str, str]:
    """Returns the PCIe root and the NUMA node of a device."""
    return attribute(device, f"{_STANDARD}/pcieRoot"), attribute(device, f"{_STANDARD}/numaNode")


def capacity(device: Object) -> str:
    """Returns memory, shares and CPUs of a device; `-` if it has none of them."""
    found = amounts(device)
    return ", ".join(f"{name} {found[name]}" for name in _AMOUNTS if name in found) or "-"


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    """Returns the lines of a table, with a header."""
    document = {
        "columnDefinitions": [{"name": name} for name in columns],
        "rows": [{"cells": list(row)} for row in rows],
    }
    return Layout().lines([document])
