"""The options of the CPU driver, named as in the configuration file of kubernetes-sigs/dra-driver-cpu."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from dray.drivers.cpu.topology import Topology
from dray.node.cpusets.lists import Cpuset, parse_cpuset


class CpuOptionsError(ValueError):
    """Options that do not fit together, or not to the machine."""


class CpuOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of the CPU driver: what it publishes, and whether it confines containers."""

    api_version: Literal["v1alpha1"] = "v1alpha1"
    cpu_device_mode: Literal["grouped", "individual"] = "grouped"
    """One device for a group of CPUs with capacity `dra.cpu/cpu`, or one for each CPU."""
    group_by: Literal["numanode", "socket", "machine"] = "numanode"
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")
    """CPUs of the system: not published and never given away."""
    full_cores_only: bool = False
    """Capacity is given in whole cores, rounded up, so that no claim shares a core with another."""
    expose_pcie_roots: bool = msgspec.field(default=False, name="exposePCIeRoots")
    """Publish `resource.kubernetes.io/pcieRoot` as a list, which needs the feature gate DRAListTypeAttributes."""
    publish_node_allocatable_resource_mapping: bool = False
    """Count claimed CPUs as `cpu` of the node, which needs the feature gate DRANodeAllocatableResources."""
    shared_pool: Literal["auto", "off"] = "auto"
    """Keep other containers off exclusive CPUs where their cgroups can be written."""
    sysfs_root: str = "/sys"
    cgroup_root: str = "/sys/fs/cgroup"

    def __post_init__(self) -> None:
        parse_cpuset(self.reserved_cpus)

    @property
    def reserved(self) -> Cpuset:
        return parse_cpuset(self.reserved_cpus)

    @property
    def sysfs(self) -> Path:
        return Path(self.sysfs_root)

    def check(self, topology: Topology) -> None:
        """Raises CpuOptionsError where they reserve what is not there or leave nothing."""
        if missing := self.reserved - topology.online:
            raise CpuOptionsError(
                f"reservedCPUs {self.reserved_cpus}: this machine has no CPU {min(missing)}; "
                f"it has {len(topology.online)}, up to {max(topology.online)}"
            )
        if topology.online <= self.reserved:
            raise CpuOptionsError(f"reservedCPUs {self.reserved_cpus} leaves no CPU to publish")
