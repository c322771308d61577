"""Which CPUs a claim gets, decided from its allocation, the devices of the machine and what other claims hold.

A device of a single CPU is that CPU. Of a group, as many CPUs are chosen as the allocation says the claim consumes,
rounded up; parts of CPUs cannot be exclusive. For the group of all CPUs the claim may name them itself in its
configuration. Pure: the caller keeps what comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from dray.api.quantity import Quantity
from dray.driver import AllocatedDevice, Config
from dray.drivers.cpu.devices import CAPACITY, MACHINE, CpuDevice
from dray.drivers.cpu.selection import select_cpus
from dray.drivers.cpu.topology import Topology
from dray.node.cpusets.lists import Cpuset, format_cpuset, parse_cpuset


class AssignmentError(Exception):
    """A claim cannot have the CPUs that were allocated to it."""


class CpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cpuset: str = ""


class CpuParameters(Config, frozen=True):
    """Opaque configuration of a claim, for devices grouped by machine."""

    api_version: ClassVar[str] = "v1alpha1"
    kind: ClassVar[str | None] = None

    cpu_config: CpuConfig = CpuConfig()

    def validate(self) -> None:
        parse_cpuset(self.cpu_config.cpuset)


@dataclass(frozen=True, slots=True)
class Machine:
    """The CPUs to assign: devices with their CPUs, and how many CPUs must stay shared."""

    topology: Topology
    devices: Mapping[str, CpuDevice]
    least_shared: int = 0


def assign_cpus(machine: Machine, allocated: Sequence[AllocatedDevice], held: Cpuset) -> list[Cpuset]:
    """Returns the CPUs of each allocated device, disjoint from the held ones. Raises AssignmentError.

    Devices with administrative access get no CPUs.
    """
    assigned: list[Cpuset] = []
    taken = held
    for device in allocated:
        cpus = frozenset() if device.admin_access else _cpus_of(machine, device, taken)
        assigned.append(cpus)
        taken |= cpus
    left = len(machine.topology.online - taken)
    if taken > held and left < machine.least_shared:
        raise AssignmentError(
            f"CPUs {format_cpuset(taken - held)} would leave {left} CPUs for everybody without a claim; reserve some "
            "with reservedCPUs so that they are not given away, or switch the shared pool off with sharedPool: off"
        )
    return assigned


def _cpus_of(machine: Machine, allocated: AllocatedDevice, taken: Cpuset) -> Cpuset:
    name = allocated.device
    device = machine.devices.get(name)
    if device is None:
        known = ", ".join(list(machine.devices)[:4])
        raise AssignmentError(f"device {name} is not on this machine, which has {known}; were its options changed?")
    parameters = allocated.config(CpuParameters)
    if parameters is not None and parameters.cpu_config.cpuset:
        return _named(device, allocated, parameters.cpu_config.cpuset, taken)
    if not device.is_group:
        return _free(device, device.cpus, taken)
    count = cpu_count(device, allocated)
    free = device.cpus - taken
    if count > len(free):
        raise AssignmentError(
            f"device {name}: {count} CPUs are allocated and {len(free)} are free; "
            f"claims that are still prepared here hold {format_cpuset(device.cpus & taken)}"
        )
    return select_cpus(machine.topology, free, count)


def _named(device: CpuDevice, allocated: AllocatedDevice, text: str, taken: Cpuset) -> Cpuset:
    if device.name != MACHINE:
        raise AssignmentError(
            f"device {device.name}: a claim names its cpuset only where devices are grouped by machine"
        )
    cpus = parse_cpuset(text)
    if outside := cpus - device.cpus:
        raise AssignmentError(f"cpuConfig.cpuset: CPUs {format_cpuset(outside)} are reserved or not online")
    count = cpu_count(device, allocated)
    if len(cpus) != count:
        raise AssignmentError(f"cpuConfig.cpuset: {text!r} are {len(cpus)} CPUs and {count} are allocated")
    return _free(device, cpus, taken)


def _free(device: CpuDevice, cpus: Cpuset, taken: Cpuset) -> Cpuset:
    if conflict := cpus & taken:
        raise AssignmentError(f"device {device.name}: CPUs {format_cpuset(conflict)} are held by another claim")
    return cpus


def cpu_count(device: CpuDevice, allocated: AllocatedDevice) -> int:
    """Returns how many CPUs the device gets; all of them if the allocation names no amount."""
    consumed = allocated.consumed_capacity.get(CAPACITY)
    return len(device.cpus) if consumed is None else Quantity.parse(consumed).value()
