"""MIG partitions as `gpu.nvidia.com` publishes them: those that exist, or one device for each profile and placement.

Partitions that exist already are devices like any other, with a UUID. Those that are made on demand are limited by
counters: all partitions of a GPU, and the whole GPU, consume counters of the GPU's own set. The whole
GPU consumes all of each, so that it and any partition exclude each other; partitions exclude each other where they
overlap on memory slices.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from dray.api.quantity import Quantity
from dray.driver.devices import Device
from dray.drivers.devices.attributes import Value, amount, known
from dray.drivers.devices.gpu import Gpu, GpuModel, common, whole
from dray.drivers.devices.mig_profiles import MigProfile

_CAPITAL: Final = re.compile("[A-Z]")


def counter_set(gpu: Gpu) -> tuple[str, dict[str, str]]:
    """Returns the name of the GPU's counter set and the amounts of its counters."""
    return f"{gpu.name}-counter-set", _totals(gpu.model)


def partitioned(gpu: Gpu) -> list[Device]:
    """The devices of a GPU that is cut on demand, by name: its partitions, and itself where MIG can be switched."""
    devices = [_partition(gpu, profile, start) for profile in gpu.model.mig for start in profile.starts()]
    if not gpu.model.keeps_mig_mode:
        devices.append(_uncut(gpu))
    return sorted(devices, key=lambda each: each.name)


def existing(gpu: Gpu, profile: MigProfile, start: int, uuid: str, name: str) -> Device:
    """A partition that somebody has made."""
    capacity = _capacity(profile) | {f"memorySlice{number}": "1" for number in _slices(profile, start)}
    return Device(name, known({"uuid": uuid, **_described(gpu, profile)}), capacity)


def _partition(gpu: Gpu, profile: MigProfile, start: int) -> Device:
    capacity = _capacity(profile)
    taken = {_kebab(name): value for name, value in capacity.items()}
    taken |= {f"memory-slice-{number}": "1" for number in _slices(profile, start)}
    name, _ = counter_set(gpu)
    return Device(profile.device_name(gpu.name, start), known(_described(gpu, profile)), capacity, {name: taken})


def _described(gpu: Gpu, profile: MigProfile) -> dict[str, Value]:
    return {"type": "mig", "parentUUID": gpu.uuid, "profile": profile.profile, **common(gpu)}


def _capacity(profile: MigProfile) -> dict[str, str]:
    return {name: amount(value) for name, value in profile.amounts().items()}


def _slices(profile: MigProfile, start: int) -> range:
    return range(start, start + profile.slices())


def _uncut(gpu: Gpu) -> Device:
    """The whole GPU. Its memory is that of the largest profile, as its counters have it, not what NVML reports."""
    device = whole(gpu)
    return replace(
        device, capacity={**device.capacity, **_largest(gpu.model)}, consumes_counters=dict([counter_set(gpu)])
    )


@lru_cache(maxsize=64)
def _largest(model: GpuModel) -> dict[str, str]:
    """Returns the largest value of each capacity among the model's profiles."""
    found: dict[str, Quantity] = {}
    for profile in model.mig:
        for name, value in profile.amounts().items():
            each = Quantity.parse(str(value))
            found[name] = max(found.get(name, each), each)
    return {name: value.canonical() for name, value in found.items()}


@lru_cache(maxsize=64)
def _totals(model: GpuModel) -> dict[str, str]:
    slices = max(start + profile.slices() for profile in model.mig for start in profile.starts())
    counters = {_kebab(name): value for name, value in _largest(model).items()}
    return counters | {f"memory-slice-{number}": "1" for number in range(slices)}


@lru_cache(maxsize=64)
def _kebab(name: str) -> str:
    return _CAPITAL.sub(lambda match: f"-{match[0].lower()}", name)
