"""Network interfaces as `dra.net` publishes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from dray.driver.devices import Device
from dray.drivers.devices import names
from dray.drivers.devices.attributes import Value, known, place

DRIVER: Final = names.NIC

_NOT_IN_NAME: Final = re.compile(r"[:.]")


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """`further` has attributes of the cloud it is in, with their domain. What is empty is not published."""

    pci_bus_id: str
    pcie_root: str = ""
    numa_node: int | None = None
    interface: str = ""
    vendor: str = ""
    device: str = ""
    mac: str = ""
    mtu: int | None = None
    rdma: bool = False
    rdma_device: str = ""
    virtual_function: bool = False
    ebpf: bool = False
    further: Mapping[str, Value] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"pci-{_NOT_IN_NAME.sub('-', self.pci_bus_id)}"


def device_of(nic: Nic) -> Device:
    own: dict[str, Value] = {
        "ifName": nic.interface,
        "pciAddress": nic.pci_bus_id,
        "pciVendor": nic.vendor,
        "pciDevice": nic.device,
        "mac": nic.mac,
        "mtu": nic.mtu,
        "numaNode": nic.numa_node,
        "rdma": nic.rdma,
        "rdmaDevice": nic.rdma_device,
        "isSriovVf": nic.virtual_function,
        "sriov": False,
        "virtual": False,
        "ebpf": nic.ebpf,
        **({"encapsulation": "ether", "state": "up", "type": "device"} if nic.interface else {}),
    }
    described = {f"{DRIVER}/{name}": value for name, value in own.items()}
    described |= place(pcie_root=nic.pcie_root, numa_node=nic.numa_node)
    return Device(nic.name, known({**described, **nic.further}))
