"""Trees of files that look like /sys of machines."""

from dataclasses import replace

from dray.drivers.cpu.topology import Cpu, Topology
from dray.node.cpusets.lists import format_cpuset, parse_cpuset


def machine(sockets=1, nodes=1, caches=1, cores=4, threads=2):
    """Counts are of each part within the larger one. CPUs are numbered as on servers: first threads of all cores, then
    the second ones."""
    total = sockets * nodes * caches * cores
    cpus = {}
    for number in range(total * threads):
        core = number % total
        socket = core // (nodes * caches * cores)
        node, cache = core // (caches * cores), core // cores
        core_id = core % (nodes * caches * cores)
        cpus[number] = Cpu(number, core_id, socket, numa_node=node, l3=cache)
    return Topology(cpus, smt_enabled=threads > 1)


def with_roots(topology, **roots):
    """Of names without their colon: pci0000_40="0-3"."""
    near = {name.replace("_", ":"): parse_cpuset(text) for name, text in roots.items()}
    return replace(topology, pcie_roots=near)


def write_sysfs(root, topology, *, smt="on", isolated="", cpu_atom="", offline=()):
    """Writes the files of the kernel that tell this topology."""

    def put(path, text):
        file = root / "devices" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    put("system/cpu/online", format_cpuset(topology.online - set(offline)))
    put("system/cpu/isolated", isolated)
    if smt:
        put("system/cpu/smt/control", smt)
    if cpu_atom:
        put("cpu_atom/cpus", cpu_atom)
    for cpu in topology.cpus.values():
        place = f"system/cpu/cpu{cpu.id}"
        put(f"{place}/topology/core_id", cpu.core_id)
        put(f"{place}/topology/physical_package_id", cpu.socket)
        put(f"{place}/topology/cluster_id", 65535 if cpu.cluster is None else cpu.cluster)
        put(f"{place}/cache/index0/level", 1)
        if cpu.l3 is not None:
            put(f"{place}/cache/index3/level", 3)
            put(f"{place}/cache/index3/id", cpu.l3)
            put(f"{place}/cache/index3/shared_cpu_list", format_cpuset(topology.l3_caches[cpu.l3]))
        if cpu.numa_node is not None:
            put(f"{place}/node{cpu.numa_node}/cpulist", format_cpuset(topology.numa_nodes[cpu.numa_node]))
    for name, near in topology.pcie_roots.items():
        put(f"{name}/pci_bus/{name.removeprefix('pci')}/cpulistaffinity", format_cpuset(near))
    return root
