"""Network functions on the PCI bus and RDMA devices, read from sysfs.

Everything is read under a root directory, so that a tree of files stands for any machine. What the kernel does not
state is empty or None.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")
_NETWORK_CLASS: Final = "0x02"
_FOR_PROGRAMS: Final = frozenset({"vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub"})


class PciFunction(msgspec.Struct, frozen=True, kw_only=True):
    """`interfaces` and `rdma_devices` are the names of what its kernel driver made of it."""

    address: str
    root: str = ""
    numa_node: int | None = None
    vendor_id: str = ""
    device_id: str = ""
    subsystem_id: str = ""
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


def read_functions(sysfs: Path) -> dict[str, PciFunction]:
    """Those of the network class and those with RDMA devices, by address."""
    try:
        found = sorted(each for each in (sysfs / "bus/pci/devices").iterdir() if _ADDRESS.fullmatch(each.name))
    except OSError:
        return {}
    functions = map(_function, found)
    return {each.address: each for each in functions if each.is_network or each.rdma_devices}


def _function(directory: Path) -> PciFunction:
    total = _number(directory / "sriov_totalvfs")
    physical = directory / "physfn"
    return PciFunction(
        address=directory.name,
        root=_root(directory),
        numa_node=_numa_node(directory),
        vendor_id=_text(directory / "vendor").removeprefix("0x"),
        device_id=_text(directory / "device").removeprefix("0x"),
        subsystem_id=_text(directory / "subsystem_device").removeprefix("0x"),
        driver=(directory / "driver").resolve().name if (directory / "driver").exists() else "",
        is_network=_text(directory / "class").startswith(_NETWORK_CLASS),
        interfaces=_names(directory / "net"),
        rdma_devices=_names(directory / "infiniband"),
        virtual_functions=(_number(directory / "sriov_numvfs") or 0) if total else None,
        physical_function=physical.resolve().name if physical.is_symlink() else "",
    )


def pci_address(sysfs: Path, interface: str) -> str:
    """Of the function behind an interface; empty where there is none, as for virtual interfaces."""
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
        found += [each for each in _names(directory) if _text(directory / each / "ibdev") == rdma_device]
    return found


def _root(directory: Path) -> str:
    return next((part for part in directory.resolve().parts if _ROOT.fullmatch(part)), "")


def _numa_node(directory: Path) -> int | None:
    node = _number(directory / "numa_node")
    # The kernel prints -1 where the machine does not say.
    return node if node is not None and node >= 0 else None


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(each.name for each in directory.iterdir()))
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
