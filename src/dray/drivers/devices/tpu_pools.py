"""The pools of a machine with TPUs, by what its driver gives away; and the pool of a slice over several machines."""

from __future__ import annotations

from dray.driver.devices import NodeSelection, Pool
from dray.drivers.devices.tpu import TpuHost, TpuMode, counters, devices_of, partitioned, slice_device


def pools_of(host: TpuHost, mode: TpuMode) -> list[Pool]:
    """Returns the machine's pools; empty in mode `slice`, unless the machine is a slice by itself."""
    if mode == "slice" and not host.is_single:
        return []
    if mode == "partitions":
        return [Pool(host.node, partitioned(host), counters(host))]
    return [Pool(host.node, devices_of(host))]


def slice_pool(name: str, label: str, accelerator: str, topology: str, hosts: int) -> Pool:
    """Reached from every node whose label has the name of the slice."""
    expression = {"key": label, "operator": "In", "values": [name]}
    nodes = NodeSelection(node_selector={"nodeSelectorTerms": [{"matchExpressions": [expression]}]})
    return Pool(pool_name(name), [slice_device(name, accelerator, topology, hosts)], nodes=nodes)


def pool_name(slice_name: str) -> str:
    """No node is called so: its own pool would have the same name."""
    return f"{slice_name}/slice"
