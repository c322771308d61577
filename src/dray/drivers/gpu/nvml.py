"""NVML, the vendor's management library, behind plain values: GPUs, their facts, modes and errors.

Symbols are called through `pynvml`, which loads the library by its soname. The file that `DriverFiles` found is
loaded before, so that the linker takes that one wherever it stands. A failed call raises NvmlError, which names the
call and the GPU. All calls block: some for milliseconds, some for seconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dray.driver import DriverError
from dray.drivers.gpu.binding import pynvml

# As nvml.h has them.
DEFAULT_MODE: Final = 0
EXCLUSIVE_PROCESS: Final = 3
_ABSENT: Final = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "INVALID_ARGUMENT")
_GONE: Final = ("GPU_IS_LOST", "NOT_FOUND", "GPU_NOT_FOUND")
_NO_GPUS: Final = {
    "DRIVER_NOT_LOADED": "the kernel module of the NVIDIA driver is not loaded",
    "LIB_RM_VERSION_MISMATCH": "library and kernel module of the NVIDIA driver differ; reboot",
    "NO_PERMISSION": "the NVIDIA driver may not be used; run as root",
    "LIBRARY_NOT_FOUND": "the library of the NVIDIA driver cannot be loaded",
}
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

Handle = Any
"""What the library gives for a GPU or an instance."""


class NvmlError(DriverError):
    """A call of the library failed. `is_gone` if the GPU is not there any more."""

    def __init__(self, doing: str, code: int, text: str) -> None:
        super().__init__(f"{doing}: {text} (NVML error {code})")
        self.is_gone = code in _codes(_GONE)
        self.is_absent = code in _codes(_ABSENT)
        self.is_timeout = code == pynvml.NVML_ERROR_TIMEOUT
        self.is_not_found = code == pynvml.NVML_ERROR_NOT_FOUND


def _codes(names: Iterable[str]) -> set[int]:
    return {getattr(pynvml, f"NVML_ERROR_{name}") for name in names}


def _named(prefix: str, names: Mapping[str, str], number: object, otherwise: str = "") -> str:
    """What the constant of the library with this number stands for."""
    return next((text for name, text in names.items() if getattr(pynvml, prefix + name, None) == number), otherwise)


def call(doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(doing, error.value, str(error)) from error


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Of one GPU, as the library states them."""

    uuid: str
    minor: int
    name: str
    brand: str
    architecture: str
    compute_capability: str
    memory: int
    pci_bus_id: str
    addressing_mode: str


class Nvml:
    """The opened library. Raises DriverError with the reason where there is no driver to speak to."""

    def __init__(self, library: Path) -> None:
        try:
            # Stays loaded: the name by which pynvml asks for it finds this one.
            ctypes.CDLL(str(library))
        except OSError as error:
            raise DriverError(f"the library of the NVIDIA driver cannot be loaded: {error}") from error
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            unknown = f"the NVIDIA driver does not answer: {error}"
            reason = _named("NVML_ERROR_", _NO_GPUS, error.value, unknown)
            raise DriverError(f"{reason} ({library})") from error

    def close(self) -> None:
        call("close NVML", pynvml.nvmlShutdown)

    @property
    def driver_version(self) -> str:
        return str(call("driver version", pynvml.nvmlSystemGetDriverVersion))

    @property
    def cuda_version(self) -> str:
        number = int(call("CUDA version", pynvml.nvmlSystemGetCudaDriverVersion))
        return f"{number // 1000}.{number % 1000 // 10}.0"

    def count(self) -> int:
        return int(call("count GPUs", pynvml.nvmlDeviceGetCount))

    def device(self, index: int) -> Handle:
        return call("it cannot be opened", pynvml.nvmlDeviceGetHandleByIndex, index)

    def find(self, uuid: str) -> Handle:
        return call(f"GPU {uuid}", pynvml.nvmlDeviceGetHandleByUUID, uuid)


def facts(handle: Handle) -> DeviceFacts:
    """Raises NvmlError where one of them is not to be had."""
    uuid = uuid_of(handle)

    def ask(function: Callable[..., Any]) -> Any:
        return call(f"GPU {uuid}", function, handle)

    pci = ask(pynvml.nvmlDeviceGetPciInfo)
    major, minor = ask(pynvml.nvmlDeviceGetCudaComputeCapability)
    addressing = optional(f"GPU {uuid}", pynvml.nvmlDeviceGetAddressingMode, handle)
    return DeviceFacts(
        uuid=uuid,
        minor=ask(pynvml.nvmlDeviceGetMinorNumber),
        name=ask(pynvml.nvmlDeviceGetName),
        brand=_named("NVML_BRAND_", _BRANDS, ask(pynvml.nvmlDeviceGetBrand), "Unknown"),
        architecture=_named("NVML_DEVICE_ARCH_", _ARCHITECTURES, ask(pynvml.nvmlDeviceGetArchitecture), "Unknown"),
        compute_capability=f"{major}.{minor}.0",
        memory=ask(pynvml.nvmlDeviceGetMemoryInfo).total,
        pci_bus_id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
        addressing_mode=_named("NVML_DEVICE_ADDRESSING_MODE_", _ADDRESSING, addressing),
    )


def optional(doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """None where the driver or the GPU does not know it."""
    try:
        return call(doing, function, *arguments)
    except NvmlError as error:
        if not error.is_absent:
            raise
        return None


def uuid_of(handle: Handle) -> str:
    return str(call("UUID of a GPU", pynvml.nvmlDeviceGetUUID, handle))


def set_compute_mode(handle: Handle, mode: int) -> None:
    call(f"compute mode of GPU {uuid_of(handle)}", pynvml.nvmlDeviceSetComputeMode, handle, mode)
