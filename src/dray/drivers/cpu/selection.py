"""The choice of CPUs for a claim that asks for a number of them.

CPUs that are near to each other are taken together: of one NUMA node if one has enough, of one L3 cache, in whole
cores. On each level the smallest group that has enough, and has it in whole cores, is taken from, so that larger ones
stay whole for others; if none has enough, the largest is taken whole and the rest is sought again. A last single CPU
comes from a core that is taken or reserved in part, where there is one. CPUs that the kernel isolates go first, since
nobody else is run on them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from dray.drivers.cpu.topology import Cpu, Topology
from dray.node.cpusets.lists import Cpuset

_Level: TypeAlias = Callable[[Cpu], Hashable]
_LEVELS: tuple[_Level, ...] = (
    lambda cpu: cpu.socket,
    lambda cpu: cpu.numa_node,
    lambda cpu: cpu.l3,
    lambda cpu: cpu.core,
)


def select_cpus(topology: Topology, free: Cpuset, count: int) -> Cpuset:
    """Raises ValueError where fewer are free."""
    if count > len(free):
        raise ValueError(f"{count} CPUs are asked for and {len(free)} are free")
    return _take(topology, free, count, _LEVELS)


def _take(topology: Topology, free: Cpuset, count: int, levels: Sequence[_Level]) -> Cpuset:
    if not count:
        return frozenset()
    if not levels:
        return frozenset(sorted(free, key=lambda cpu: (cpu not in topology.isolated, cpu))[:count])
    groups = _split(topology, free, levels[0])
    taken: Cpuset = frozenset()
    while len(taken) < count:
        missing = count - len(taken)
        enough = [group for group in groups if len(group) >= missing]
        if enough:
            group = min(
                enough, key=lambda group: (_breaks(topology, group, missing), len(group), *_tie(topology, group))
            )
            return taken | _take(topology, group, missing, levels[1:])
        group = min(groups, key=lambda group: (-len(group), *_tie(topology, group)))
        groups.remove(group)
        taken |= group
    return taken


def _breaks(topology: Topology, group: Cpuset, count: int) -> bool:
    """Whether that many CPUs of the group would share cores with others though whole cores were asked for."""
    cores = {topology.cpus[cpu].core: topology.siblings(cpu) for cpu in group}.values()
    threads = max(map(len, cores))
    return sum(len(core) for core in cores if core <= group) < count - count % threads


def _tie(topology: Topology, group: Cpuset) -> tuple[int, int]:
    return -len(group & topology.isolated), min(group)


def _split(topology: Topology, cpus: Cpuset, level: _Level) -> list[Cpuset]:
    groups: dict[Hashable, set[int]] = {}
    for cpu in cpus:
        groups.setdefault(level(topology.cpus[cpu]), set()).add(cpu)
    return [frozenset(group) for group in groups.values()]
