"""Machine types: what a kind of machine has, as its file says it. Plain data."""

from __future__ import annotations

from typing import Literal

import msgspec

from dray.api.objects import Object
from dray.drivers.devices.gpu import GpuModel

API_VERSION = "fleet.dray.dev/v1alpha1"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel", kw_only=True):
    """A mapping in a file; unknown members are refused."""


class NumaNode(Part, frozen=True, kw_only=True):
    """`cpus` as the kernel lists them: of two halves with SMT, the second has the siblings of the first."""

    cpus: str
    socket: int | None = None


class Slot(Part, frozen=True, kw_only=True):
    """The PCI address of a device, its PCIe root and its NUMA node."""

    address: str
    pcie_root: str = ""
    numa_node: int | None = None


class Gpus(Part, frozen=True, kw_only=True):
    """`model` names a GpuModel, or is one."""

    model: str | GpuModel
    slots: tuple[Slot, ...]
    driver_version: str = "580.105.8"
    cuda_version: str = "13.0.0"


class Port(Slot, frozen=True, kw_only=True):
    interface: str = ""
    rdma_device: str = ""
    network: str = ""


class Nics(Part, frozen=True, kw_only=True):
    """Interfaces of one model. `cloud` has attributes with their domain."""

    ports: tuple[Port, ...]
    vendor: str = ""
    device: str = ""
    mtu: int | None = None
    rdma: bool = False
    virtual_function: bool = False
    ebpf: bool = False
    cloud: dict[str, str | int | bool] = msgspec.field(default_factory=dict)


class Tpus(Part, frozen=True, kw_only=True):
    accelerator: str
    topology: str
    chips: int


class PublishedSlice(Part, frozen=True, kw_only=True):
    """Devices as a live cluster published them, for machines whose hardware is known from that alone."""

    driver: str
    devices: tuple[Object, ...] = ()
    shared_counters: tuple[Object, ...] = ()


class MachineType(Part, frozen=True, kw_only=True, tag_field="kind", tag="MachineType"):
    """`source` says how the figures are known: seen on such a machine, from a vendor's list, or estimated."""

    api_version: Literal["fleet.dray.dev/v1alpha1"]
    name: str
    cpus: int
    memory: str
    description: str = ""
    source: Literal["seen", "list", "est", "own"] = "own"
    price_class: Literal["low", "medium", "high", "highest"] = "medium"
    hourly_price: float | None = None
    """Price of an hour of the machine, in any currency."""
    architecture: Literal["amd64", "arm64"] = "amd64"
    pods: int = 110
    threads_per_core: Literal[1, 2] = 2
    numa_nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpus, ...] = ()
    nics: tuple[Nics, ...] = ()
    tpus: Tpus | None = None
    compute_domain: bool = False
    slices: tuple[PublishedSlice, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)


class NamedGpuModel(GpuModel, frozen=True, tag_field="kind", tag="GpuModel", kw_only=True):
    """A GpuModel that machine types refer to by name."""

    api_version: Literal["fleet.dray.dev/v1alpha1"]
    name: str
