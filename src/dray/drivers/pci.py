"""PCI functions as sysfs shows them: identity, and the place that devices of several drivers are aligned by.

`root` is the name of the PCIe root complex above a function (`pci0000:44`), `numa_node` None where the kernel says -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class PciFunction:
    """Identifiers are written as in sysfs: `0x1ae0`; empty where the kernel has none."""

    address: str
    vendor: str
    device: str
    subsystem_device: str = ""
    root: str = ""
    numa_node: int | None = None
    iommu_group: str = ""


def pci_functions(sysfs: Path, vendor: str = "") -> list[PciFunction]:
    """Returns the PCI functions of the machine, or those of one vendor, ordered by address."""
    directory = sysfs / "bus" / "pci" / "devices"
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []
    found = (read_function(directory / name) for name in names)
    return [function for function in found if function is not None and vendor in ("", function.vendor)]


def read_function(link: Path) -> PciFunction | None:
    """Reads a PCI function from its sysfs directory, or a link to it; None if it is none."""
    try:
        directory = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    vendor, device = _text(directory / "vendor"), _text(directory / "device")
    if not vendor or not device:
        return None
    node = _text(directory / "numa_node")
    return PciFunction(
        address=directory.name,
        vendor=vendor,
        device=device,
        subsystem_device=_text(directory / "subsystem_device"),
        root=next((part for part in directory.parts if _ROOT.fullmatch(part)), ""),
        numa_node=int(node) if node.isdecimal() else None,
        iommu_group=_target(directory / "iommu_group"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip().lower()
    except (OSError, UnicodeDecodeError):
        return ""


def _target(link: Path) -> str:
    try:
        return link.readlink().name
    except OSError:
        return ""
