"""MIG partitions as `gpu.nvidia.com` publishes them: one device for each profile and placement, limited by counters.

All partitions of a GPU, and the whole GPU, consume counters of the GPU's own set. The whole GPU consumes all of each,
so that it and any partition exclude each other; partitions exclude each other where they overlap on memory slices.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from dray.api.objects import Object
from dray.api.quantity import Quantity
from dray.drivers.devices.attributes import amount, attributes, capacity
from dray.drivers.devices.gpu import Gpu, GpuModel, common, whole
from dray.drivers.devices.mig_profiles import MigProfile

_CAPITAL: Final = re.compile("[A-Z]")


def counter_set(gpu: Gpu) -> Object:
    counters = {name: {"value": value} for name, value in _totals(gpu.model).items()}
    return {"name": _set_name(gpu), "counters": counters}


def partitioned(gpu: Gpu) -> list[Object]:
    """The devices of a GPU that is cut on demand, by name: its partitions, and itself where MIG can be switched."""
    devices = [_partition(gpu, profile, start) for profile in gpu.model.mig for start in profile.starts()]
    if not gpu.model.keeps_mig_mode:
        devices.append(_uncut(gpu))
    return sorted(devices, key=lambda each: str(each["name"]))


def _partition(gpu: Gpu, profile: MigProfile, start: int) -> Object:
    described = {"type": "mig", "parentUUID": gpu.uuid, "profile": profile.profile, **common(gpu)}
    taken = {_kebab(name): amount(value) for name, value in profile.amounts().items()}
    taken |= {f"memory-slice-{number}": "1" for number in range(start, start + profile.slices())}
    return {
        "name": profile.device_name(gpu.name, start),
        "attributes": attributes(described),
        "capacity": capacity(profile.amounts()),
        "consumesCounters": [_consumption(gpu, taken)],
    }


def _uncut(gpu: Gpu) -> Object:
    device = whole(gpu)
    engines = {name: value for name, value in _largest(gpu.model).items() if name != "memory"}
    device["capacity"] |= capacity(engines)
    return {**device, "consumesCounters": [_consumption(gpu, _totals(gpu.model))]}


def _consumption(gpu: Gpu, taken: dict[str, str]) -> Object:
    return {"counterSet": _set_name(gpu), "counters": {name: {"value": value} for name, value in taken.items()}}


def _set_name(gpu: Gpu) -> str:
    return f"{gpu.name}-counter-set"


@lru_cache(maxsize=64)
def _largest(model: GpuModel) -> dict[str, str]:
    """Of each capacity the most that any profile has."""
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


def _kebab(name: str) -> str:
    return _CAPITAL.sub(lambda match: f"-{match[0].lower()}", name)
