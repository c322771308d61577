"""Utilization of GPUs and their memory in use, by NVML. It blocks.

The share of time in which a kernel ran, over the last second or less, is what NVML calls utilization. A GPU in MIG mode
does not tell it, and neither do its partitions; what a GPU does not tell is left out. A GPU that is sick is left to
the health checks.
"""

from __future__ import annotations

from collections.abc import Collection

from dray.driver import DeviceUtilization
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.discovery import Found
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError, optional
from dray.drivers.gpu.nvml_session import Nvml


def read_utilization(nvml: Nvml, found: Found, lost: Collection[str], pool: str) -> list[DeviceUtilization]:
    """`lost` are UUIDs of GPUs that do not answer. Without a session with NVML there is nothing to tell."""
    made: list[DeviceUtilization] = []
    try:
        with nvml.opened():
            for found_gpu in found.gpus:
                if found_gpu.is_offered_whole and found_gpu.gpu.uuid not in lost:
                    made += _read(nvml, found_gpu.gpu.uuid, pool, found_gpu.gpu.name)
    except NvmlError:
        # The health checks say why NVML cannot be used.
        return made
    return made


def _read(nvml: Nvml, uuid: str, pool: str, device: str) -> list[DeviceUtilization]:
    try:
        with CALLS.within(CALLS.seconds):
            handle = nvml.find(uuid)
            rates = optional(f"utilization of GPU {uuid}", pynvml.nvmlDeviceGetUtilizationRates, handle)
            memory = optional(f"memory of GPU {uuid}", pynvml.nvmlDeviceGetMemoryInfo, handle)
    except NvmlError:
        return []
    ratio = None if rates is None else min(int(rates.gpu), 100) / 100
    used = None if memory is None else int(memory.used)
    return [] if ratio is None and used is None else [DeviceUtilization(pool, device, ratio, used)]
