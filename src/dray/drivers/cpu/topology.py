"""The CPU topology of a machine, read from sysfs: cores, SMT siblings, NUMA nodes, sockets, L3 caches, kinds of cores.

`read_topology` reads under a root directory, so that a tree of files stands for any machine. What a kernel does not
state is None: virtual machines may show no L3 cache, kernels without NUMA no node. CPUs whose socket or
core is missing are left out and named in `incomplete`, because nothing can be said about where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from dray.node.cpusets.lists import Cpuset, CpusetError, parse_cpuset

_NODE: Final = re.compile(r"node(\d+)")
_CACHE: Final = re.compile(r"index\d+")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")
# What the kernel prints for a cluster it does not know: -1 as an unsigned number of 16 bits.
_NO_CLUSTER: Final = 65535

Core = tuple[int, int, int]
Key = TypeVar("Key", bound=Hashable)


class TopologyError(Exception):
    """The machine does not say what CPUs it has."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU. `core_id` is unique within socket and cluster; `core` names the physical core on the machine."""

    id: int
    core_id: int
    socket: int
    cluster: int | None = None
    numa_node: int | None = None
    l3: int | None = None
    core_type: str = "standard"

    @property
    def core(self) -> Core:
        return (self.socket, -1 if self.cluster is None else self.cluster, self.core_id)


@dataclass(frozen=True)
class Topology:
    """`cpus` by number, those that are online alone. `pcie_roots` has the CPUs near to each root."""

    cpus: dict[int, Cpu]
    isolated: Cpuset = frozenset()
    smt_enabled: bool = False
    pcie_roots: dict[str, Cpuset] = field(default_factory=dict)
    incomplete: Cpuset = frozenset()

    @cached_property
    def online(self) -> Cpuset:
        return frozenset(self.cpus)

    @cached_property
    def cores(self) -> dict[Core, Cpuset]:
        """The SMT siblings of each physical core."""
        return _grouped(self.cpus.values(), lambda cpu: cpu.core)

    @cached_property
    def sockets(self) -> dict[int, Cpuset]:
        return _grouped(self.cpus.values(), lambda cpu: cpu.socket)

    @cached_property
    def numa_nodes(self) -> dict[int, Cpuset]:
        """A kernel without NUMA has all CPUs in node 0."""
        return _grouped(self.cpus.values(), lambda cpu: cpu.numa_node or 0)

    @cached_property
    def l3_caches(self) -> dict[int | None, Cpuset]:
        return _grouped(self.cpus.values(), lambda cpu: cpu.l3)

    def siblings(self, cpu: int) -> Cpuset:
        """Returns the CPUs of the same core, including `cpu`."""
        return self.cores[self.cpus[cpu].core]


def _grouped(cpus: Iterable[Cpu], key: Callable[[Cpu], Key]) -> dict[Key, Cpuset]:
    groups: dict[Key, set[int]] = {}
    for cpu in cpus:
        groups.setdefault(key(cpu), set()).add(cpu.id)
    return {name: frozenset(group) for name, group in groups.items()}


def read_topology(sysfs: Path = Path("/sys")) -> Topology:
    """Raises TopologyError where sysfs does not name the CPUs that are online."""
    system = sysfs / "devices" / "system" / "cpu"
    online = read_online(sysfs)
    efficient = _list(sysfs / "devices" / "cpu_atom" / "cpus")
    found = {cpu: _read_cpu(system / f"cpu{cpu}", cpu, efficient) for cpu in sorted(online)}
    cpus = {number: cpu for number, cpu in found.items() if cpu is not None}
    if not cpus:
        raise TopologyError(f"none of the CPUs {sorted(online)} has core_id and physical_package_id under {system}")
    topology = Topology(
        cpus,
        isolated=_list(system / "isolated") & frozenset(cpus),
        pcie_roots=_read_pcie_roots(sysfs / "devices"),
        incomplete=online - frozenset(cpus),
    )
    return replace(topology, smt_enabled=_smt_enabled(system, topology))


def read_online(sysfs: Path = Path("/sys")) -> Cpuset:
    """The CPUs that are online now. Raises TopologyError."""
    file = sysfs / "devices" / "system" / "cpu" / "online"
    try:
        return parse_cpuset(file.read_text())
    except (OSError, CpusetError) as error:
        raise TopologyError(f"cannot read which CPUs are online from {file}: {error}") from error


def _read_cpu(directory: Path, number: int, efficient: Cpuset) -> Cpu | None:
    core, socket = _number(directory / "topology" / "core_id"), _number(directory / "topology" / "physical_package_id")
    if core is None or socket is None or core < 0 or socket < 0:
        return None
    cluster = _number(directory / "topology" / "cluster_id")
    core_type = "standard"
    if efficient:
        core_type = "e-core" if number in efficient else "p-core"
    return Cpu(
        number,
        core_id=core,
        socket=socket,
        cluster=None if cluster in (_NO_CLUSTER, -1) else cluster,
        numa_node=_numa_node(directory),
        l3=_l3(directory / "cache"),
        core_type=core_type,
    )


def _numa_node(directory: Path) -> int | None:
    """Returns the CPU's NUMA node, from the `node*` link in its directory; None if there is none."""
    for name in _names(directory):
        if match := _NODE.fullmatch(name):
            return int(match[1])
    return None


def _l3(cache: Path) -> int | None:
    """The identity of the cache, or where the kernel gives none, the first CPU that shares it."""
    for name in _names(cache):
        if _CACHE.fullmatch(name) and _number(cache / name / "level") == 3:
            given = _number(cache / name / "id")
            sharing = _list(cache / name / "shared_cpu_list")
            return given if given is not None else min(sharing, default=None)
    return None


def _read_pcie_roots(devices: Path) -> dict[str, Cpuset]:
    roots: dict[str, Cpuset] = {}
    for name in _names(devices):
        if _ROOT.fullmatch(name):
            bus = name.removeprefix("pci")
            near = _list(devices / name / "pci_bus" / bus / "cpulistaffinity")
            if near:
                roots[name] = near
    return roots


def _smt_enabled(system: Path, topology: Topology) -> bool:
    try:
        return (system / "smt" / "control").read_text().strip() == "on"
    except OSError:
        return len(topology.cores) < len(topology.cpus)


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _list(path: Path) -> Cpuset:
    try:
        return parse_cpuset(path.read_text())
    except (OSError, CpusetError):
        return frozenset()
