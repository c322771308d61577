"""MIG in NVML: the profiles of a GPU, its instances, and how to make and destroy them.

A partition is a GPU instance, a part of memory and processors, with one compute instance that takes all of it. The
library names profiles by an index and by an id; devices are named after the id. Memory of a profile is what the
driver states, which differs between its versions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from dray.drivers.devices.mig_profiles import MigProfile
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.known_answers import Ask
from dray.drivers.gpu.nvml import uuid_of
from dray.drivers.gpu.nvml_calls import NvmlError, call, change, optional, plausible
from dray.drivers.gpu.nvml_session import Handle

_PREFIX: Final = "MIG "
# The first profiles, of GPU instances and of compute instances, are known to every library that has MIG. A library that
# is older than `pynvml` refuses the numbers of later ones as invalid.
_FIRST_PROFILES: Final = 5
# More partitions of one profile, places for them, or compute instances than any GPU has.
_MOST: Final = 256


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance: `id` is its number on the GPU, `start` and `size` are its memory slices."""

    handle: Handle
    id: int
    profile_id: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """A compute instance, as programs use it."""

    uuid: str
    instance_id: int
    compute_id: int


def mig_mode(gpu: Handle, ask: Ask = optional) -> bool | None:
    """Returns whether it is on; None where the GPU has no MIG."""
    found = ask("MIG mode", pynvml.nvmlDeviceGetMigMode, gpu)
    return None if found is None else bool(found[0])


def is_mig_on(gpu: Handle) -> bool:
    """Asks a GPU that has MIG. Raises NvmlError: a GPU that does not tell may have partitions."""
    return bool(call("MIG mode", pynvml.nvmlDeviceGetMigMode, gpu)[0])


def is_virtual(gpu: Handle, ask: Ask = optional) -> bool:
    """Returns whether the GPU is a vGPU of this virtual machine: a guest cannot make partitions."""
    mode = ask("virtualization mode", pynvml.nvmlDeviceGetVirtualizationMode, gpu)
    return bool(mode == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU)


def set_mig_mode(gpu: Handle, uuid: str, on: bool) -> None:
    doing = f"switch MIG mode {'on' if on else 'off'} of GPU {uuid}"
    wanted = pynvml.NVML_DEVICE_MIG_ENABLE if on else pynvml.NVML_DEVICE_MIG_DISABLE
    status = change(doing, pynvml.nvmlDeviceSetMigMode, gpu, wanted)
    if status:
        raise NvmlError(doing, status, "it needs a reset of the GPU, or a process still uses it")


def profiles(gpu: Handle, ask: Ask = optional) -> tuple[MigProfile, ...]:
    """Returns what the GPU can be cut into, by ids on the GPU; nothing where this process may not use MIG."""
    found = ((info, _placements(gpu, info.id, ask)) for info in _profile_infos(gpu, ask))
    return tuple(_profile(info, places) for info, places in found if places is not None)


def _profile_infos(gpu: Handle, ask: Ask = optional) -> Iterator[Any]:
    for index in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = _at(index, ask, "MIG profiles", pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu, index)
        if info is not None:
            yield info


def _at(index: int, ask: Ask, doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Asks for the profile with this index; returns None if there is none."""
    try:
        return ask(doing, function, *arguments)
    except NvmlError as error:
        if index < _FIRST_PROFILES or not error.is_invalid:
            raise
        return None


def _profile(info: Any, places: list[tuple[int, int]]) -> MigProfile:
    return MigProfile(
        profile=_text(info.name).removeprefix(_PREFIX),
        id=info.id,
        memory=f"{info.memorySizeMB}Mi",
        multiprocessors=info.multiprocessorCount,
        copy_engines=info.copyEngineCount,
        decoders=info.decoderCount,
        encoders=info.encoderCount,
        jpeg_engines=info.jpegCount,
        ofa_engines=info.ofaCount,
        placements=tuple(sorted(start for start, _ in places)),
        size=max((size for _, size in places), default=0),
    )


def _text(value: bytes | str) -> str:
    """Versions of pynvml differ in what they make of it."""
    return value.decode() if isinstance(value, bytes) else value


def _placements(gpu: Handle, profile_id: int, ask: Ask) -> list[tuple[int, int]] | None:
    """Returns the first slice and the number of slices of each; None where the driver does not know them."""
    count = ctypes.c_uint()
    asked = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    try:
        if ask("MIG placements", asked, gpu, profile_id, None, ctypes.byref(count)) is None:
            return None
    except NvmlError as error:
        # With this error, too, the library tells how many there are.
        if not error.is_too_small:
            raise
    found = (pynvml.c_nvmlGpuInstancePlacement_t * plausible("MIG placements", count.value, _MOST))()
    call("MIG placements", asked, gpu, profile_id, ctypes.byref(found), ctypes.byref(count))
    return [(placement.start, placement.size) for placement in found[: count.value]]


def instances(gpu: Handle, needed: int | None = None, ask: Ask = optional) -> list[Instance]:
    """Returns all GPU instances, by their numbers, of a GPU whose MIG mode is on.

    Raises NvmlError also if the GPU does not know the profile with the id `needed`.
    """
    found, listed = [], []
    for info in _profile_infos(gpu, ask):
        listing, kind = pynvml.nvmlDeviceGetGpuInstances, pynvml.c_nvmlGpuInstance_t
        handles = _listed(listing, gpu, info.id, kind, info.instanceCount)
        found += [_instance(handle) for handle in handles]
        listed.append(info.id)
    if needed is not None and needed not in listed:
        raise NvmlError(f"GPU instances of profile {needed}", pynvml.NVML_ERROR_NOT_FOUND, "the profile is not known")
    return sorted(found, key=lambda instance: instance.id)


def _instance(handle: Handle) -> Instance:
    info = call("a GPU instance", pynvml.nvmlGpuInstanceGetInfo, handle)
    return Instance(handle, info.id, info.profileId, info.placement.start, info.placement.size)


def parts(gpu: Handle) -> list[Part]:
    """Returns the GPU's compute instances that programs can use."""
    found = []
    for handle in part_handles(gpu):
        instance = call("a MIG device", pynvml.nvmlDeviceGetGpuInstanceId, handle)
        compute = call("a MIG device", pynvml.nvmlDeviceGetComputeInstanceId, handle)
        found.append(Part(uuid_of(handle), instance, compute))
    return found


def part_handles(gpu: Handle) -> Iterator[Handle]:
    """Yields the compute instances of a GPU whose MIG mode is on."""
    for index in range(_most_parts(gpu)):
        try:
            yield call("a MIG device", pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, index)
        except NvmlError as error:
            # Numbers need not be consecutive.
            if not error.is_not_found:
                raise


def _most_parts(gpu: Handle) -> int:
    """Returns how many compute instances the GPU may have; none if the library has no function for them."""
    try:
        count = int(call("MIG devices", pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu))
    except NvmlError as error:
        if not error.is_unexported:
            raise
        return 0
    return plausible("MIG devices", count, _MOST)


def create_instance(gpu: Handle, uuid: str, profile_id: int, start: int, size: int) -> Instance:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    doing = f"create a GPU instance of profile {profile_id} at slice {start} of GPU {uuid}"
    made = change(doing, pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, gpu, profile_id, ctypes.byref(place))
    return _instance(made)


def create_compute_instance(gpu: Handle, instance: Instance) -> None:
    """The one that takes all of the GPU instance."""
    slices = next((info.sliceCount for info in _profile_infos(gpu) if info.id == instance.profile_id), 0)
    doing = f"create a compute instance of {slices} slices in GPU instance {instance.id}"
    for info in _compute_profiles(instance):
        if info.sliceCount == slices:
            change(doing, pynvml.nvmlGpuInstanceCreateComputeInstance, instance.handle, info.id)
            return
    raise NvmlError(doing, pynvml.NVML_ERROR_NOT_SUPPORTED, "the GPU has no profile for it")


def destroy_instance(instance: Instance) -> None:
    """Destroys it with its compute instances. Instances that are gone meanwhile are no error."""
    for info in _compute_profiles(instance):
        listing = pynvml.nvmlGpuInstanceGetComputeInstances
        for compute in _listed(listing, instance.handle, info.id, pynvml.c_nvmlComputeInstance_t, info.instanceCount):
            _destroy(f"a compute instance of GPU instance {instance.id}", pynvml.nvmlComputeInstanceDestroy, compute)
    _destroy(f"GPU instance {instance.id}", pynvml.nvmlGpuInstanceDestroy, instance.handle)


def _destroy(what: str, function: Callable[..., Any], handle: Handle) -> None:
    try:
        change(f"destroy {what}", function, handle)
    except NvmlError as error:
        if not error.is_not_found:
            raise


def _compute_profiles(instance: Instance) -> Iterator[Any]:
    shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    asked = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    # Of one slice without copy engines of its own; nobody asks for it.
    left_out = pynvml.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1
    for index in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        info = None
        if index != left_out:
            doing = "profiles of compute instances"
            info = _at(index, optional, doing, asked, instance.handle, index, shared)
        if info is not None:
            yield info


def _listed(function: Callable[..., Any], of: Handle, profile_id: int, kind: Any, most: int) -> list[Handle]:
    count = ctypes.c_uint(plausible("instances", most, _MOST))
    found = (kind * max(most, 1))()
    call("instances", function, of, profile_id, ctypes.byref(found), ctypes.byref(count))
    return [found[at] for at in range(plausible("instances", count.value, most))]
