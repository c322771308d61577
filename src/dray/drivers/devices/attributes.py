"""Attributes of devices: the standard names, and values that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from dray.api.quantity import Quantity
from dray.driver.devices import Attribute

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"

Value = Attribute | None


def known(values: Mapping[str, Value]) -> dict[str, Attribute]:
    """Returns the values without None and empty strings, which are not published."""
    return {name: value for name, value in values.items() if value is not None and value != ""}


def place(
    *, pci_bus_id: str = "", pcie_root: str = "", numa_node: int | Sequence[int] | None = None
) -> dict[str, Value]:
    """The standard attributes that say where a device sits."""
    return {PCI_BUS_ID: pci_bus_id, PCIE_ROOT: pcie_root, NUMA_NODE: numa_node}


# A fleet has thousands of devices and a few dozen amounts.
@lru_cache(maxsize=1024)
def amount(text: str | int) -> str:
    """A quantity as an API server prints it."""
    return Quantity.parse(str(text)).canonical()


def binary_amount(size: int) -> str:
    """A number of bytes as an API server prints it in binary units."""
    return amount(f"{size // 1024}Ki" if size % 1024 == 0 else size)
