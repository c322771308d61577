"""NVML, the vendor's management library, behind plain values: GPUs, their facts, modes and errors.

Symbols are called through `pynvml`, which loads the library by its soname. The file that `DriverFiles` found is
loaded before, so that the linker takes that one wherever it stands. A failed call raises NvmlError, which names the
call and the GPU. All calls block: some for milliseconds, some for seconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pynvml

from dray.driver import DriverError

DEFAULT_MODE: Final[int] = pynvml.NVML_COMPUTEMODE_DEFAULT
EXCLUSIVE_PROCESS: Final[int] = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
_ABSENT: Final = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)
_GONE: Final = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_GPU_NOT_FOUND)
_NO_GPUS: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the kernel module of the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library and kernel module of the NVIDIA driver differ; reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver may not be used; run as root",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "the library of the NVIDIA driver cannot be loaded",
}
_BRANDS: Final = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_NVS: "NVS",
    pynvml.NVML_BRAND_GRID: "Grid",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_NVIDIA_VAPPS: "NvidiaVApps",
    pynvml.NVML_BRAND_NVIDIA_VPC: "NvidiaVPC",
    pynvml.NVML_BRAND_NVIDIA_VCS: "NvidiaVCS",
    pynvml.NVML_BRAND_NVIDIA_VWS: "NvidiaVWS",
    pynvml.NVML_BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
    pynvml.NVML_BRAND_QUADRO_RTX: "QuadroRTX",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX",
    pynvml.NVML_BRAND_NVIDIA: "Nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "GeForceRTX",
    pynvml.NVML_BRAND_TITAN_RTX: "TitanRTX",
}
_ARCHITECTURES: Final = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
    pynvml.NVML_DEVICE_ARCH_RUBIN: "Rubin",
}
_ADDRESSING: Final = {
    pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
}

Handle = Any
"""What the library gives for a GPU or an instance."""


class NvmlError(DriverError):
    """A call of the library failed. `is_gone` if the GPU is not there any more."""

    def __init__(self, doing: str, code: int, text: str) -> None:
        super().__init__(f"{doing}: {text} (NVML error {code})")
        self.is_gone = code in _GONE
        self.is_absent = code in _ABSENT
        self.is_timeout = code == pynvml.NVML_ERROR_TIMEOUT
        self.is_not_found = code == pynvml.NVML_ERROR_NOT_FOUND


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
            reason = _NO_GPUS.get(error.value, f"the NVIDIA driver does not answer: {error}")
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
    return DeviceFacts(
        uuid=uuid,
        minor=ask(pynvml.nvmlDeviceGetMinorNumber),
        name=ask(pynvml.nvmlDeviceGetName),
        brand=_BRANDS.get(ask(pynvml.nvmlDeviceGetBrand), "Unknown"),
        architecture=_ARCHITECTURES.get(ask(pynvml.nvmlDeviceGetArchitecture), "Unknown"),
        compute_capability=f"{major}.{minor}.0",
        memory=ask(pynvml.nvmlDeviceGetMemoryInfo).total,
        pci_bus_id=f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
        addressing_mode=_ADDRESSING.get(optional(f"GPU {uuid}", pynvml.nvmlDeviceGetAddressingMode, handle), ""),
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
