"""Devices made of CPUs: one for each, or one for each NUMA node, socket or machine with consumable capacity.

`make_devices` is pure: a topology and options in, devices as the SDK publishes them out, each with the CPUs behind
it. Reserved CPUs are behind none. Devices of single CPUs are numbered core by core, SMT siblings side by side, since
an allocator that takes devices in order then takes whole cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object
from dray.driver import Capacity, Device
from dray.driver.devices import Attribute
from dray.drivers.cpu.options import CpuOptions
from dray.drivers.cpu.topology import Cpu, Topology
from dray.node.cpusets.lists import Cpuset

DRIVER: Final = "dra.cpu"
CAPACITY: Final = "dra.cpu/cpu"
MACHINE: Final = "cpudevmachine"
_NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
# Published beside the standard attribute as long as manifests match on them.
_OLD_NUMA_NODES: Final = ("dra.cpu/numaNodeID", "dra.net/numaNode")


@dataclass(frozen=True, slots=True)
class CpuDevice:
    """`published` is the device as it stands in a ResourceSlice; `cpus` are those that may be given away."""

    published: Device
    cpus: Cpuset

    @property
    def name(self) -> str:
        return self.published.name

    @property
    def is_group(self) -> bool:
        return bool(self.published.capacity)


def make_devices(topology: Topology, options: CpuOptions) -> dict[str, CpuDevice]:
    allocatable = allocatable_cpus(topology, options)
    if options.cpu_device_mode == "individual":
        made = [_single(number, cpu, topology, options) for number, cpu in enumerate(_ordered(topology, allocatable))]
    else:
        made = [_group(name, cpus, topology, options) for name, cpus in _groups(topology, allocatable, options)]
    return {device.name: device for device in made}


def allocatable_cpus(topology: Topology, options: CpuOptions) -> Cpuset:
    """Returns the CPUs to publish: unreserved ones; with `full_cores_only`, only cores without reserved CPUs."""
    if not options.full_cores_only:
        return topology.online - options.reserved
    whole = (core for core in topology.cores.values() if not core & options.reserved)
    return frozenset().union(*whole)


def _ordered(topology: Topology, cpus: Cpuset) -> list[Cpu]:
    cores = sorted((core & cpus for core in topology.cores.values() if core & cpus), key=min)
    return [topology.cpus[number] for core in cores for number in sorted(core)]


def _single(number: int, cpu: Cpu, topology: Topology, options: CpuOptions) -> CpuDevice:
    cpus = frozenset({cpu.id})
    attributes: dict[str, Attribute] = {
        "dra.cpu/cpuID": cpu.id,
        "dra.cpu/coreID": cpu.core_id,
        "dra.cpu/coreType": cpu.core_type,
        "dra.cpu/socketID": cpu.socket,
        "dra.cpu/smtEnabled": topology.smt_enabled,
        **_numa_attributes(cpu.numa_node),
        **_pcie_attributes(cpus, topology, options),
    }
    if cpu.l3 is not None:
        attributes["dra.cpu/cacheL3ID"] = cpu.l3
    if topology.isolated:
        attributes["dra.cpu/isolated"] = cpu.id in topology.isolated
    extra = _node_allocatable({"deviceMultiplier": "1"}, options)
    return CpuDevice(Device(f"cpudev{number:03}", attributes, extra=extra), cpus)


def _groups(topology: Topology, allocatable: Cpuset, options: CpuOptions) -> list[tuple[str, Cpuset]]:
    if options.group_by == "machine":
        return [(MACHINE, allocatable)]
    by_node = options.group_by == "numanode"
    prefix = "cpudevnuma" if by_node else "cpudevsocket"
    members = topology.numa_nodes if by_node else topology.sockets
    named = ((f"{prefix}{number:03}", cpus & allocatable) for number, cpus in sorted(members.items()))
    return [(name, cpus) for name, cpus in named if cpus]


def _group(name: str, cpus: Cpuset, topology: Topology, options: CpuOptions) -> CpuDevice:
    attributes: dict[str, Attribute] = {
        "dra.cpu/numCPUs": len(cpus),
        "dra.cpu/smtEnabled": topology.smt_enabled,
        **_pcie_attributes(cpus, topology, options),
    }
    some = topology.cpus[min(cpus)]
    if options.group_by != "machine":
        attributes["dra.cpu/socketID"] = some.socket
    if options.group_by == "numanode":
        attributes |= _numa_attributes(some.numa_node)
    published = Device(
        name,
        attributes,
        capacity={CAPACITY: Capacity(len(cpus), _policy(cpus, topology, options))},
        allow_multiple_allocations=True,
        extra=_node_allocatable({"capacityKey": CAPACITY, "capacityMultiplier": "1"}, options),
    )
    return CpuDevice(published, cpus)


def _policy(cpus: Cpuset, topology: Topology, options: CpuOptions) -> Object | None:
    """Has the scheduler round up to whole cores; the default stays all of the device, as without a policy."""
    if not options.full_cores_only:
        return None
    threads = str(max(len(topology.siblings(cpu)) for cpu in cpus))
    return {"default": str(len(cpus)), "validRange": {"min": threads, "step": threads}}


def _node_allocatable(mapping: Object, options: CpuOptions) -> Object:
    if not options.publish_node_allocatable_resource_mapping:
        return {}
    return {"nodeAllocatableResources": {"cpu": {"mapping": mapping}}}


def _numa_attributes(node: int | None) -> dict[str, int]:
    """Returns the NUMA attributes; empty if the node is unknown: a made-up value could align with other devices."""
    return {} if node is None else dict.fromkeys((_NUMA_NODE, *_OLD_NUMA_NODES), node)


def _pcie_attributes(cpus: Cpuset, topology: Topology, options: CpuOptions) -> dict[str, list[str]]:
    near = [root for root, local in sorted(topology.pcie_roots.items()) if local & cpus]
    return {_PCIE_ROOT: near} if near and options.expose_pcie_roots else {}
