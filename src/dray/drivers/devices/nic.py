"""Network interfaces as `dra.net` publishes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dray.api.names import is_label
from dray.driver.devices import Device
from dray.drivers.devices import names
from dray.drivers.devices.attributes import Value, known, place

DRIVER: Final = names.NIC

_NOT_IN_NAME: Final = re.compile(r"[:.]")
_LONGEST_VALUE: Final = 64


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """A function on the PCI bus, an interface, or both. `further` has attributes of the cloud it is in, with their
    domain; `type`, `encapsulation`, `state` and `virtual` are of the interface. What is empty is not published."""

    pci_bus_id: str = ""
    pcie_root: str = ""
    numa_node: int | None = None
    interface: str = ""
    vendor: str = ""
    device: str = ""
    subsystem: str = ""
    mac: str = ""
    mtu: int | None = None
    speed: int | None = None
    """In Mb/s."""
    type: str = "device"
    encapsulation: str = "ether"
    state: str = "up"
    alias: str = ""
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    virtual: bool = False
    rdma: bool = False
    rdma_device: str = ""
    virtual_functions: int | None = None
    """How many there are; None where the function can have none."""
    virtual_function: bool = False
    ebpf: bool = False
    tc_filters: tuple[str, ...] = ()
    tcx_programs: tuple[str, ...] = ()
    further: Mapping[str, Value] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        if self.pci_bus_id:
            return f"pci-{_NOT_IN_NAME.sub('-', self.pci_bus_id)}"
        if is_label(self.interface):
            return self.interface
        return "net-" + base64.b32encode(self.interface.encode()).decode().rstrip("=").lower()


def device_of(nic: Nic) -> Device:
    own: dict[str, Value] = {
        "ifName": nic.interface,
        "pciAddress": nic.pci_bus_id,
        "pciVendor": _cut(nic.vendor),
        "pciDevice": _cut(nic.device),
        "pciSubsystem": nic.subsystem,
        "mac": nic.mac,
        "mtu": nic.mtu,
        "numaNode": nic.numa_node,
        "rdma": nic.rdma,
        "rdmaDevice": nic.rdma_device,
        "isSriovVf": nic.virtual_function,
        "sriov": nic.virtual_functions is not None,
        "sriovVfs": nic.virtual_functions,
        "virtual": nic.virtual,
        "ebpf": nic.ebpf,
        **(_of_interface(nic) if nic.interface else {}),
    }
    described = {f"{DRIVER}/{name}": value for name, value in own.items()}
    described |= place(pcie_root=nic.pcie_root, numa_node=nic.numa_node)
    return Device(nic.name, known({**described, **nic.further}))


def _of_interface(nic: Nic) -> dict[str, Value]:
    return {
        "encapsulation": nic.encapsulation,
        "state": nic.state,
        "type": nic.type,
        "alias": _cut(nic.alias),
        "speed": nic.speed,
        "ipv4": _joined(nic.ipv4),
        "ipv6": _joined(nic.ipv6),
        "tcFilterNames": _joined(nic.tc_filters),
        "tcxProgramNames": _joined(nic.tcx_programs),
    }


def _joined(values: Iterable[str]) -> str:
    """Joins the sorted values with commas, as many as an attribute value has room for."""
    text = ""
    for value in sorted(set(values)):
        longer = f"{text},{value}" if text else value
        if len(longer.encode()) > _LONGEST_VALUE:
            break
        text = longer
    return text


def _cut(text: str) -> str:
    return text.encode()[:_LONGEST_VALUE].decode(errors="ignore")
