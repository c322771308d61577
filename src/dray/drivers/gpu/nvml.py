"""GPUs in NVML: their facts and their compute mode, as plain values.

`nvml_session` opens the library and finds GPUs, `nvml_calls` makes the calls, `nvml_mig` has partitions. All of it
blocks, some calls for seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.known_answers import Ask
from dray.drivers.gpu.nvml_calls import call, change
from dray.drivers.gpu.nvml_session import Handle, Nvml

# As nvml.h has them.
DEFAULT_MODE: Final = 0
EXCLUSIVE_PROCESS: Final = 3
_BRANDS: Final = {
    "QUADRO": "Quadro",
    "TESLA": "Tesla",
    "NVS": "NVS",
    "GRID": "Grid",
    "GEFORCE": "GeForce",
    "TITAN": "Titan",
    "NVIDIA_VAPPS": "NvidiaVApps",
    "NVIDIA_VPC": "NvidiaVPC",
    "NVIDIA_VCS": "NvidiaVCS",
    "NVIDIA_VWS": "NvidiaVWS",
    "NVIDIA_CLOUD_GAMING": "NvidiaCloudGaming",
    "QUADRO_RTX": "QuadroRTX",
    "NVIDIA_RTX": "NvidiaRTX",
    "NVIDIA": "Nvidia",
    "GEFORCE_RTX": "GeForceRTX",
    "TITAN_RTX": "TitanRTX",
}
_ARCHITECTURES: Final = {
    "KEPLER": "Kepler",
    "MAXWELL": "Maxwell",
    "PASCAL": "Pascal",
    "VOLTA": "Volta",
    "TURING": "Turing",
    "AMPERE": "Ampere",
    "ADA": "Ada Lovelace",
    "HOPPER": "Hopper",
    "BLACKWELL": "Blackwell",
    "RUBIN": "Rubin",
}
_ADDRESSING: Final = {
    "NONE": "None",
    "HMM": "HMM",
    "ATS": "ATS",
}


def _named(prefix: str, names: Mapping[str, str], number: object, otherwise: str = "") -> str:
    """Returns the text for the NVML constant with this number."""
    return next((text for name, text in names.items() if getattr(pynvml, prefix + name, None) == number), otherwise)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Facts about one GPU, as the library states them. What the library does not support is empty, or None."""

    uuid: str
    minor: int
    name: str
    brand: str
    architecture: str
    compute_capability: str
    memory: int | None
    pci_bus_id: str
    addressing_mode: str


def facts(handle: Handle, uuid: str, ask_gpu: Ask) -> DeviceFacts:
    """Raises NvmlError, which names the fact, where one cannot be read.

    A GPU has a UUID and a minor number. It need not support the others: one with unified memory states no memory.
    """

    def ask(fact: str, function: Callable[..., Any]) -> Any:
        return ask_gpu(f"{fact} of GPU {uuid}", function, handle)

    minor = call(f"minor number of GPU {uuid}", pynvml.nvmlDeviceGetMinorNumber, handle)
    pci = ask("PCI address", pynvml.nvmlDeviceGetPciInfo)
    capability = ask("compute capability", pynvml.nvmlDeviceGetCudaComputeCapability)
    memory = ask("memory", pynvml.nvmlDeviceGetMemoryInfo)
    brand = ask("brand", pynvml.nvmlDeviceGetBrand)
    architecture = ask("architecture", pynvml.nvmlDeviceGetArchitecture)
    addressing = ask("addressing mode", pynvml.nvmlDeviceGetAddressingMode)
    return DeviceFacts(
        uuid=uuid,
        minor=minor,
        name=ask("name", pynvml.nvmlDeviceGetName) or "",
        brand="" if brand is None else _named("NVML_BRAND_", _BRANDS, brand, "Unknown"),
        architecture=(
            "" if architecture is None else _named("NVML_DEVICE_ARCH_", _ARCHITECTURES, architecture, "Unknown")
        ),
        compute_capability="" if capability is None else f"{capability[0]}.{capability[1]}.0",
        memory=None if memory is None else memory.total,
        pci_bus_id="" if pci is None else f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
        addressing_mode=_named("NVML_DEVICE_ADDRESSING_MODE_", _ADDRESSING, addressing),
    )


def uuid_of(handle: Handle) -> str:
    return str(call("UUID of a GPU", pynvml.nvmlDeviceGetUUID, handle))


def set_compute_mode(nvml: Nvml, uuid: str, mode: int) -> None:
    change(f"compute mode of GPU {uuid}", pynvml.nvmlDeviceSetComputeMode, nvml.find(uuid), mode)
