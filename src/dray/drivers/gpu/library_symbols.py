"""Symbols of NVML that a library may export under another name or in another version than `pynvml` calls.

NVML adds versions of its functions (`nvmlInit_v2`, `nvmlDeviceGetMemoryInfo_v2`). Libraries of old drivers lack the
newest versions, and libraries that stand in for NVML, as virtual GPUs and emulators bring, export only some of them.
`NvmlLibrary` gives `pynvml` another version where the wanted one is missing. Functions whose arguments differ are
wrapped. Anything else that is missing raises AttributeError, which `pynvml` turns into FUNCTION_NOT_FOUND.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any, Final

Function = Callable[..., int]

# By the name that is wanted: other versions with the same arguments. Structures of older versions are not longer and
# have the same beginning, with all members that dray reads.
_SAME_ARGUMENTS: Final = {
    "nvmlDeviceGetAttributes_v2": ("nvmlDeviceGetAttributes",),
    "nvmlDeviceGetCount_v2": ("nvmlDeviceGetCount",),
    "nvmlDeviceGetHandleByIndex_v2": ("nvmlDeviceGetHandleByIndex",),
    "nvmlDeviceGetPciInfo_v3": ("nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"),
    "nvmlSystemGetCudaDriverVersion": ("nvmlSystemGetCudaDriverVersion_v2",),
}
_SUCCESS: Final = 0


class NvmlLibrary(ctypes.CDLL):
    """The library at a path. Raises OSError if it cannot be loaded."""

    def __getattr__(self, name: str) -> Any:
        # `CDLL` keeps a function once it was found, so that each is looked for once.
        for symbol in (name, *_SAME_ARGUMENTS.get(name, ())):
            try:
                return super().__getattr__(symbol)
            except AttributeError:
                continue
        wrap = _WRAPPED.get(name)
        if wrap is None:
            raise AttributeError(f"{self._name} has no function {name}")
        return wrap(self)


def _init(library: NvmlLibrary) -> Function:
    """nvmlInitWithFlags by a function without flags. `pynvml` has no flags to set."""
    try:
        older = library.nvmlInit_v2
    except AttributeError:
        older = library.nvmlInit

    def init(_flags: object) -> int:
        return int(older())

    return init


def _memory(library: NvmlLibrary) -> Function:
    """nvmlDeviceGetMemoryInfo by its second version, which tells reserved memory apart."""
    newer, pynvml = library.nvmlDeviceGetMemoryInfo_v2, importlib.import_module("pynvml")

    def memory(handle: object, wanted: Any) -> int:
        found = pynvml.c_nvmlMemory_v2_t()
        found.version = pynvml.nvmlMemory_v2
        status = int(newer(handle, ctypes.byref(found)))
        if status == _SUCCESS:
            told = wanted._obj
            told.total, told.free, told.used = found.total, found.free, found.used
        return status

    return memory


def _compute_profile(library: NvmlLibrary) -> Function:
    """nvmlGpuInstanceGetComputeInstanceProfileInfoV by its first version, which has no name."""
    older, pynvml = library.nvmlGpuInstanceGetComputeInstanceProfileInfo, importlib.import_module("pynvml")

    def profile(handle: object, index: object, engines: object, wanted: Any) -> int:
        found = pynvml.c_nvmlComputeInstanceProfileInfo_t()
        status = int(older(handle, index, engines, ctypes.byref(found)))
        if status == _SUCCESS:
            _copy(found, wanted._obj)
        return status

    return profile


def _copy(found: Any, told: Any) -> None:
    """Copies the members of a structure into a newer version of it."""
    for name, *_ in found._fields_:
        setattr(told, name, getattr(found, name))


def _profile(library: NvmlLibrary) -> Function:
    """nvmlDeviceGetGpuInstanceProfileInfoV by its first version, which has no name: that is made of the sizes."""
    older, pynvml = library.nvmlDeviceGetGpuInstanceProfileInfo, importlib.import_module("pynvml")

    def profile(handle: object, index: object, wanted: Any) -> int:
        found = pynvml.c_nvmlGpuInstanceProfileInfo_t()
        status = int(older(handle, index, ctypes.byref(found)))
        if status == _SUCCESS:
            told = wanted._obj
            _copy(found, told)
            told.name = f"MIG {found.sliceCount}g.{-(-found.memorySizeMB // 1024)}gb".encode()
        return status

    return profile


_WRAPPED: Final[dict[str, Callable[[NvmlLibrary], Function]]] = {
    "nvmlInitWithFlags": _init,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile,
}
