"""What a process that has TPU chips is told of them, in the variables that libtpu and frameworks read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.drivers.devices.tpu import DRIVER, TpuHost
from dray.drivers.devices.tpu_generations import cores_per_chip, is_flat, is_resilient, is_slice
from dray.drivers.devices.tpu_topology import block_topology, chips_in, commas, dimensions, host_bounds

_LOCAL: Final = {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
_CUBE: Final = 4
_RING: Final = 16


def environment(host: TpuHost, numbers: Sequence[int]) -> dict[str, str]:
    """Returns the variables for a container that has these chips: all of the machine's, or a block."""
    is_whole = len(numbers) == len(host.chips)
    topology = host.topology if is_whole else block_topology(len(numbers), flat=is_flat(host.generation))
    told = {
        "TPU_SKIP_MDS_QUERY": "true",
        "KUBERNETES_NODE_NAME": host.node,
        "DRA_RESOURCE_DRIVER_NAME": DRIVER,
    }
    if topology:
        cores = chips_in(topology) * cores_per_chip(host.generation)
        told |= {"TPU_TOPOLOGY": topology, "TPU_ACCELERATOR_TYPE": f"{host.generation}-{cores}"}
        if is_slice(host.accelerator):
            told |= _bounds(host, topology, len(numbers))
    if not is_whole:
        told |= _part(numbers)
    if not is_whole or host.is_single:
        told |= _LOCAL
    nodes = {node for number in numbers if (node := host.chips[number].numa_node) is not None}
    if nodes:
        told["WORKLOAD_NIC_PREFERRED_NUMA"] = commas(sorted(nodes))
    return told


def _bounds(host: TpuHost, topology: str, chips: int) -> dict[str, str]:
    sides, own = dimensions(topology), host_bounds(chips)
    hosts = commas(max(side // each, 1) for side, each in zip(sides, own, strict=True))
    is_cube = min(sides) >= _CUBE
    wrap = [side == _RING for side in sides] if is_flat(host.generation) else [is_cube] * 3
    told = {"CHIPS_PER_HOST_BOUNDS": commas(own), "HOST_BOUNDS": hosts}
    told |= {"TOPOLOGY_WRAP": commas(wrap), "TOPOLOGY_ALT": "false"}
    told = {f"TPU_{name}": value for name, value in told.items()}
    # The same under the names that older programs read.
    older = {name.removeprefix("TPU_").removeprefix("TOPOLOGY_"): value for name, value in told.items()}
    if is_cube and is_resilient(host.generation):
        older["ENABLE_ICI_RESILIENCY"] = "false" if host.ici_resiliency.lower() == "false" else "true"
    return told | older


def _part(numbers: Sequence[int]) -> dict[str, str]:
    """Returns the variables that limit a process to its own chips of the machine."""
    return {
        "TPU_VISIBLE_CHIPS": commas(numbers),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": commas(host_bounds(len(numbers))),
        "TPU_PROCESS_BOUNDS": "1,1,1",
    }
