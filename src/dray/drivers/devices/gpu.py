"""GPUs as `gpu.nvidia.com` publishes them, and how several claims share a device.

A `GpuModel` is what all GPUs of one product have in common, a `Gpu` one of them in its place. Partitions are in `mig`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import msgspec

from dray.api.quantity import Quantity
from dray.driver.devices import Amount, Capacity, Device, Version
from dray.drivers.devices import names
from dray.drivers.devices.attributes import Value, amount, known, place
from dray.drivers.devices.mig_profiles import MigProfile

DRIVER: Final = names.GPU

_AMPERE: Final = "Ampere"
_STEP: Final = 2**20
_FREE: Final = {"default": "0", "validRange": {"min": "0"}}


class GpuModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`memory` is what the vendor's library reports, less than the name says on most GPUs; empty if it reports none."""

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
    """How several claims may have one device: by the memory each asks for, without limit, or in a number of shares."""

    mode: Literal["memory", "unlimited", "shares"]
    shares: int = 0


def whole(gpu: Gpu) -> Device:
    """A GPU for one claim."""
    described = known({"type": "gpu", "uuid": gpu.uuid, **common(gpu)})
    return Device(gpu.name, described, {"memory": amount(gpu.model.memory)} if gpu.model.memory else {})


def shared(device: Device, sharing: Sharing) -> Device:
    """The device, a GPU or a partition, for several claims. The scheduler counts shares; no hardware enforces them.

    A device that states no memory cannot be shared by memory, and is for one claim then.
    """
    # A capacity without a policy is used up by the first claim, so that no second one would fit.
    capacity: dict[str, Amount | Capacity] = {
        name: Capacity(value.value if isinstance(value, Capacity) else value, _FREE)
        for name, value in device.capacity.items()
    }
    if "memory" in capacity:
        capacity["memory"] = _shared_memory(capacity["memory"], sharing)
    elif sharing.mode == "memory":
        return device
    if sharing.mode == "shares":
        shares = amount(sharing.shares)
        policy = {"default": "1", "validRange": {"min": "1", "max": shares, "step": "1"}}
        capacity["shares"] = Capacity(shares, policy)
    return replace(device, capacity=capacity, allow_multiple_allocations=True)


def _shared_memory(memory: Amount | Capacity, sharing: Sharing) -> Capacity:
    """Rounded down to whole MiB: the API wants the largest amount of a range to be a multiple of its step."""
    size = Quantity.parse(str(memory.value if isinstance(memory, Capacity) else memory)).value()
    most = amount(f"{size // _STEP}Mi")
    if sharing.mode == "memory":
        return Capacity(most, {"default": most, "validRange": {"min": "1Mi", "max": most, "step": "1Mi"}})
    return Capacity(most, {"default": "0", "validRange": {"min": "0", "max": most, "step": "1Mi"}})


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
