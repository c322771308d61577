"""What a device is, in a few words: from its attributes and capacity as drivers publish them."""

from __future__ import annotations

from typing import Any, Final

from dray.allocation.device_states import amounts
from dray.answers.views.layout import Layout
from dray.api.objects import Object, mapping

# The first that a device has says what kind of device it is.
_KINDS: Final = ("profile", "productName", "tpuGen", "model", "dra.net/pciDevice", "dra.net/ifName", "type")
_CPUS: Final = "dra.cpu/cpu"
_AMOUNTS: Final = ("memory", "shares", _CPUS)
_STANDARD: Final = "resource.kubernetes.io"


def attribute(device: Object, *names: str) -> str:
    """The first of them that it has; - where it has none."""
    attributes = mapping(device.get("attributes"))
    found = next((mapping(attributes[name]) for name in names if name in attributes), {})
    return str(next(iter(found.values()), "-"))


def kind(device: Object) -> str:
    found = attribute(device, *_KINDS)
    cpus = amounts(device).get(_CPUS) if found == "-" else None
    return f"{cpus} CPUs" if cpus else found


def place(device: Object) -> tuple[str, str]:
    """PCIe root and NUMA node."""
    return attribute(device, f"{_STANDARD}/pcieRoot"), attribute(device, f"{_STANDARD}/numaNode")


def capacity(device: Object) -> str:
    """The capacities that people ask for."""
    found = amounts(device)
    return ", ".join(f"{name} {found[name]}" for name in _AMOUNTS if name in found) or "-"


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    document = {
        "columnDefinitions": [{"name": each} for each in columns],
        "rows": [{"cells": list(row)} for row in rows],
    }
    return Layout().lines([document])
