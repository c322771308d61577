"""Attributes of devices: the standard names, and the form in which values stand in a ResourceSlice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from dray.api.objects import Object
from dray.api.quantity import Quantity

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"


class Version(str):
    """A text that is published as a version."""

    __slots__ = ()


Value = bool | int | str | Version | None


def attributes(values: Mapping[str, Value]) -> Object:
    """By name; what is None or an empty text is not known and left out."""
    return {name: _attribute(value) for name, value in values.items() if value is not None and value != ""}


def _attribute(value: bool | int | str) -> Object:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case Version():
            return {"version": str(value)}
    return {"string": value}


def place(*, pci_bus_id: str = "", pcie_root: str = "", numa_node: int | None = None) -> dict[str, Value]:
    """The standard attributes that say where a device sits."""
    return {PCI_BUS_ID: pci_bus_id, PCIE_ROOT: pcie_root, NUMA_NODE: numa_node}


# A fleet has thousands of devices and a few dozen amounts.
@lru_cache(maxsize=1024)
def amount(text: str | int) -> str:
    """A quantity as an API server would print it."""
    return Quantity.parse(str(text)).canonical()


def capacity(values: Mapping[str, str | int]) -> Object:
    return {name: {"value": amount(value)} for name, value in values.items()}
