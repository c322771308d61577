"""GPUs as `gpu.nvidia.com` publishes them: whole, or whole and shared by several claims.

A `GpuModel` is what all GPUs of one product have in common, a `Gpu` one of them in its place. Partitions are in `mig`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import msgspec

from dray.driver.devices import Amount, Capacity, Device, Version
from dray.drivers.devices import names
from dray.drivers.devices.attributes import Value, amount, known, place
from dray.drivers.devices.mig_profiles import MigProfile

DRIVER: Final = names.GPU

_AMPERE: Final = "Ampere"


class GpuModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`memory` is what the vendor's library reports, less than the name says on most GPUs."""

    product_name: str
    memory: str
    architecture: str
    compute_capability: str
    brand: str = "Nvidia"
    addressing_mode: str = ""
    mig: tuple[MigProfile, ...] = ()

    @property
    def keeps_mig_mode(self) -> bool:
        """Whether switching MIG on or off needs a reset, so that such a GPU is whole or partitioned but not both."""
        return self.architecture == _AMPERE


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    minor: int
    uuid: str
    model: GpuModel
    driver_version: str
    cuda_version: str
    pci_bus_id: str
    pcie_root: str = ""
    numa_node: int | tuple[int, ...] | None = None
    """A tuple where attributes may be lists."""

    @property
    def name(self) -> str:
        return f"gpu-{self.minor}"


class Sharing(msgspec.Struct, frozen=True):
    """How several claims may have one GPU: by the memory each asks for, without limit, or in a number of shares."""

    mode: Literal["memory", "unlimited", "shares"]
    shares: int = 0


def whole(gpu: Gpu) -> Device:
    """A GPU for one claim."""
    described = known({"type": "gpu", "uuid": gpu.uuid, **common(gpu)})
    return Device(gpu.name, described, {"memory": amount(gpu.model.memory)})


def shared(gpu: Gpu, sharing: Sharing) -> Device:
    """A GPU for several claims. What each gets is accounted for; nothing on the GPU enforces it."""
    memory = amount(gpu.model.memory)
    capacity: dict[str, Amount | Capacity] = {}
    if sharing.mode == "memory":
        capacity["memory"] = Capacity(memory, {"default": memory, "validRange": {"min": "1Mi", "step": "1Mi"}})
    else:
        capacity["memory"] = Capacity(memory, {"default": "0", "validRange": {"min": "0"}})
    if sharing.mode == "shares":
        policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
        capacity["shares"] = Capacity(amount(sharing.shares), policy)
    return replace(whole(gpu), capacity=capacity, allow_multiple_allocations=True)


def common(gpu: Gpu) -> dict[str, Value]:
    """The attributes that a GPU and its partitions share."""
    model = gpu.model
    return {
        "productName": model.product_name,
        "brand": model.brand,
        "architecture": model.architecture,
        "cudaComputeCapability": Version(model.compute_capability),
        "driverVersion": Version(gpu.driver_version),
        "cudaDriverVersion": Version(gpu.cuda_version),
        "addressingMode": model.addressing_mode,
        **place(pci_bus_id=gpu.pci_bus_id, pcie_root=gpu.pcie_root, numa_node=gpu.numa_node),
    }
