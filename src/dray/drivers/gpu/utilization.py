"""Utilization of GPUs and their memory in use, by NVML. It blocks.

The share of time in which a kernel ran, over the last second or less, is what NVML calls utilization. A GPU in MIG mode
does not tell it, and neither do its partitions: these tell their memory alone. What a GPU does not tell is left out. A
GPU that is sick is left to the health checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from dray.driver import DeviceUtilization
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.discovery import Found, FoundGpu
from dray.drivers.gpu.nvml import uuid_of
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError, call, optional
from dray.drivers.gpu.nvml_session import Handle, Nvml


def read_utilization(nvml: Nvml, found: Found, lost: Collection[str], pool: str) -> list[DeviceUtilization]:
    """`lost` are UUIDs of GPUs that do not answer. Without a session with NVML there is nothing to tell."""
    made: list[DeviceUtilization] = []
    try:
        with nvml.opened():
            for gpu in found.gpus:
                if gpu.gpu.uuid not in lost:
                    made += _read(nvml, gpu, pool)
    except NvmlError:
        # The health checks say why NVML cannot be used.
        return made
    return made


def _read(nvml: Nvml, found: FoundGpu, pool: str) -> list[DeviceUtilization]:
    """Returns nothing for a GPU that fails."""
    try:
        with CALLS.within(CALLS.seconds):
            handle = nvml.find(found.gpu.uuid)
            if found.partitions and nvml_mig.mig_mode(handle):
                return list(_partitions(handle, found, pool))
            return list(_whole(handle, found, pool)) if found.is_offered_whole else []
    except NvmlError:
        return []


def _whole(handle: Handle, found: FoundGpu, pool: str) -> Iterator[DeviceUtilization]:
    rates = _told("utilization", pynvml.nvmlDeviceGetUtilizationRates, handle)
    ratio = None if rates is None else min(int(rates.gpu), 100) / 100
    used = _memory_used(handle)
    if ratio is not None or used is not None:
        yield DeviceUtilization(pool, found.gpu.name, ratio, used)


def _partitions(handle: Handle, found: FoundGpu, pool: str) -> Iterator[DeviceUtilization]:
    places = {instance.id: (instance.profile_id, instance.start) for instance in nvml_mig.instances(handle)}
    for part in nvml_mig.part_handles(handle):
        uuid = uuid_of(part)
        number = int(call("GPU instance of a partition", pynvml.nvmlDeviceGetGpuInstanceId, part))
        name, used = _name(found, uuid, places.get(number)), _memory_used(part)
        if name and used is not None:
            yield DeviceUtilization(pool, name, None, used)


def _name(found: FoundGpu, uuid: str, place: tuple[int, int] | None) -> str:
    """Returns the device of a partition; empty if it is not offered. A partition that is made for a claim is found by
    its place, any other by its UUID."""
    for name, each in found.partitions.items():
        if each.uuid == uuid or (not each.uuid and (each.profile.id, each.start) == place):
            return name
    return ""


def _memory_used(handle: Handle) -> int | None:
    memory = _told("memory", pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if memory is None else int(memory.used)


def _told(doing: str, function: Callable[..., Any], handle: Handle) -> Any:
    """Returns None if the GPU does not have the fact, or if this process may not ask for it."""
    try:
        return optional(doing, function, handle)
    except NvmlError as error:
        if not error.is_forbidden:
            raise
        return None
