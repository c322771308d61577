"""Network functions on the PCI bus and RDMA devices, read from sysfs.

Everything is read under a root directory, so that a tree of files stands for any machine. What the kernel does not
state is empty or None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.drivers.pci import PciFunction, pci_functions

_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NETWORK_CLASS: Final = "0x02"
_FOR_PROGRAMS: Final = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFunction:
    """`interfaces` and `rdma_devices` are the names of what its kernel driver made of it."""

    pci: PciFunction
    driver: str = ""
    is_network: bool = False
    interfaces: tuple[str, ...] = ()
    rdma_devices: tuple[str, ...] = ()
    virtual_functions: int | None = None
    physical_function: str = ""
    """The address of the function that this one is a virtual function of."""

    @property
    def obstacle(self) -> str:
        """Why the kernel has no interface of it to give away; empty where it has."""
        if not self.driver:
            return "no kernel driver is bound to it"
        if self.driver in _FOR_PROGRAMS:
            return f"it is bound to {self.driver}, which leaves it to programs"
        return ""


def read_functions(sysfs: Path) -> dict[str, NetworkFunction]:
    """Returns network functions and functions with RDMA devices, by PCI address."""
    found = (_function(function, sysfs / "bus/pci/devices" / function.address) for function in pci_functions(sysfs))
    return {function.pci.address: function for function in found if function.is_network or function.rdma_devices}


def _function(pci: PciFunction, directory: Path) -> NetworkFunction:
    total = _number(directory / "sriov_totalvfs")
    physical = directory / "physfn"
    return NetworkFunction(
        pci=pci,
        driver=(directory / "driver").resolve().name if (directory / "driver").exists() else "",
        is_network=_text(directory / "class").startswith(_NETWORK_CLASS),
        interfaces=_names(directory / "net"),
        rdma_devices=_names(directory / "infiniband"),
        virtual_functions=(_number(directory / "sriov_numvfs") or 0) if total else None,
        physical_function=physical.resolve().name if physical.is_symlink() else "",
    )


def pci_address(sysfs: Path, interface: str) -> str:
    """Returns the PCI address of an interface; "" for virtual interfaces."""
    place = sysfs / "class/net" / interface
    parts = place.resolve().parts if place.exists() else ()
    return next((part for part in reversed(parts) if _ADDRESS.fullmatch(part)), "")


def speed(sysfs: Path, interface: str) -> int | None:
    """In Mb/s. An interface that is down states none, and virtual ones make one up."""
    found = _number(sysfs / "class/net" / interface / "speed")
    return found if found is not None and found > 0 else None


def rdma_character_devices(sysfs: Path, rdma_device: str) -> list[str]:
    """Names of the device files in /dev/infiniband through which programs use it."""
    found = ["rdma_cm"]
    for kind in ("infiniband_verbs", "infiniband_mad"):
        directory = sysfs / "class" / kind
        found += [name for name in _names(directory) if _text(directory / name / "ibdev") == rdma_device]
    return found


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in directory.iterdir()))
    except OSError:
        return ()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None
