"""Which CPUs a claim gets, decided from its allocation, the devices of the machine and what other claims hold.

A device of a single CPU is that CPU. Of a group, as many CPUs are chosen as the allocation says the claim consumes,
rounded up; parts of CPUs cannot be exclusive. For the group of all CPUs the claim may name them itself in its
configuration. Pure: the caller keeps what comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.drivers.cpu.cpusets import Cpuset, CpusetError, format_cpuset, parse_cpuset
from dray.drivers.cpu.devices import CAPACITY, CpuDevice
from dray.drivers.cpu.selection import select_cpus
from dray.drivers.cpu.topology import Topology


class AssignmentError(Exception):
    """A claim cannot have the CPUs that were allocated to it."""


class CpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cpuset: str = ""


class CpuParameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Opaque configuration of a claim, for devices grouped by machine."""

    api_version: Literal["v1alpha1"]
    cpu_config: CpuConfig = CpuConfig()


@dataclass(frozen=True, slots=True)
class Machine:
    """What is given away: devices with their CPUs, and how many CPUs must be left for everybody else."""

    topology: Topology
    devices: Mapping[str, CpuDevice]
    least_shared: int = 0


def assign_cpus(
    machine: Machine,
    results: Sequence[tuple[Object, CpuParameters | None]],
    held: Cpuset,
) -> list[Cpuset]:
    """For each result of the allocation its CPUs, beside those that others hold. Raises AssignmentError.

    A result with administrative access looks at the device and gets no CPUs.
    """
    assigned: list[Cpuset] = []
    taken = held
    for result, parameters in results:
        cpus: Cpuset = frozenset()
        if not result.get("adminAccess"):
            cpus = _cpus_of(machine, result, parameters, taken)
        assigned.append(cpus)
        taken |= cpus
    left = len(machine.topology.online - taken)
    if taken > held and left < machine.least_shared:
        raise AssignmentError(
            f"CPUs {format_cpuset(taken - held)} would leave {left} CPUs for everybody without a claim; reserve some "
            "with reservedCPUs so that they are not given away, or switch the shared pool off with sharedPool: off"
        )
    return assigned


def _cpus_of(machine: Machine, result: Object, parameters: CpuParameters | None, taken: Cpuset) -> Cpuset:
    name = str(result.get("device"))
    device = machine.devices.get(name)
    if device is None:
        known = ", ".join(list(machine.devices)[:4])
        raise AssignmentError(f"device {name} is not on this machine, which has {known}; were its options changed?")
    if parameters is not None and parameters.cpu_config.cpuset:
        return _named(device, result, parameters.cpu_config.cpuset, taken)
    if "capacity" not in device.document:
        return _free(device, device.cpus, taken)
    count = _count(device, result)
    free = device.cpus - taken
    if count > len(free):
        raise AssignmentError(
            f"device {name}: {count} CPUs are allocated and {len(free)} are free; "
            f"claims that are still prepared here hold {format_cpuset(device.cpus & taken)}"
        )
    return select_cpus(machine.topology, free, count)


def _named(device: CpuDevice, result: Object, text: str, taken: Cpuset) -> Cpuset:
    if device.name != "cpudevmachine":
        raise AssignmentError(
            f"device {device.name}: a claim may name its cpuset only where devices are grouped by machine"
        )
    try:
        cpus = parse_cpuset(text)
    except CpusetError as error:
        raise AssignmentError(f"cpuConfig.cpuset: {error}") from error
    if outside := cpus - device.cpus:
        raise AssignmentError(f"cpuConfig.cpuset: CPUs {format_cpuset(outside)} are reserved or not online")
    if len(cpus) != _count(device, result):
        raise AssignmentError(
            f"cpuConfig.cpuset: {text!r} are {len(cpus)} CPUs and {_count(device, result)} are allocated"
        )
    return _free(device, cpus, taken)


def _free(device: CpuDevice, cpus: Cpuset, taken: Cpuset) -> Cpuset:
    if conflict := cpus & taken:
        raise AssignmentError(f"device {device.name}: CPUs {format_cpuset(conflict)} are held by another claim")
    return cpus


def _count(device: CpuDevice, result: Object) -> int:
    """All of them where the allocation names no amount: it then has the whole device."""
    consumed = mapping(result.get("consumedCapacity")).get(CAPACITY)
    return len(device.cpus) if consumed is None else Quantity.parse(str(consumed)).value()
