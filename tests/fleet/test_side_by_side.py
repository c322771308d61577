"""Simulated and real drivers side by side: on the files of a machine type the real ones publish what a fleet does.

GPUs are compared in tests/drivers/gpu/test_discovery.py.
"""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dray.driver import DriverContext
from dray.drivers.devices.nic import device_of
from dray.drivers.nic.discovery import Interfaces, discover
from dray.drivers.nic.links import Link
from dray.drivers.nic.options import NicOptions
from dray.drivers.registry import load
from dray.fleet.choice import choose
from dray.fleet.pools import declared
from dray.testing.cluster import LocalCluster
from dray.testing.objects import node
from tests.drivers.cpu.machines import write_sysfs
from tests.drivers.nic.trees import SysfsTree
from tests.drivers.tpu.hosts import write_host


def machine(choice, **options):
    made = choose([f"{choice}=1"]).machines[0]
    return replace(made, options=msgspec.structs.replace(made.options, **options))


async def published(driver, labels=None):
    """What it says that it would publish on the node of the machine."""
    name = driver[2].name
    async with LocalCluster(objects=[node(name, labels=labels or {})]) as cluster:
        made = load(driver[0], driver[1])
        made.context = DriverContext(name, Path("/nonexistent"), cluster.client, lambda: None)
        return [(pool.name, [each.document() for each in pool.all_devices()]) for pool in await made.pools()]


def declared_by(made, driver):
    pool = declared(made)[driver]
    return [(pool.name, [each.document() for each in pool.all_devices()])]


@pytest.mark.parametrize(
    ("cpus", "settings"),
    [
        ("numanode", {"exposePCIeRoots": "true"}),
        ("socket", {"groupBy": "socket", "exposePCIeRoots": "true"}),
        ("individual", {"cpuDeviceMode": "individual", "exposePCIeRoots": "true"}),
    ],
)
async def test_cpus(tmp_path, cpus, settings):
    made = machine("p5.48xlarge", cpus=cpus, pcie_roots=True)
    place = {"sysfsRoot": str(write_sysfs(tmp_path, made.topology))}
    assert await published(("cpu", {**settings, **place}, made)) == declared_by(made, "dra.cpu")


@pytest.mark.parametrize(
    ("choice", "generation", "chips"),
    [
        ("ct6e-standard-8t", "v6e", 8),
        ("ct6e-standard-8t:partitions", "v6e", 8),
        ("ct5lp-hightpu-4t", "v5e", 4),
        ("ct5p-hightpu-4t:partitions", "v5p", 4),
    ],
)
async def test_tpus(tmp_path, choice, generation, chips):
    """Apart from the place of chips on the PCI bus, which machine types do not have."""
    made = machine(choice)
    settings = {**write_host(tmp_path, generation, chips), "mode": made.options.tpus}
    [(pool, devices)] = await published(("tpu", settings, made), made.labels())
    for each in devices:
        each["attributes"] = {name: value for name, value in each["attributes"].items() if "/" not in name}
    assert [(pool, devices)] == declared_by(made, "tpu.google.com")


@pytest.mark.parametrize("choice", ["p5.48xlarge", "p4d.24xlarge", "a3-ultragpu-8g", "dgx-h100"])
def test_nics(tmp_path, choice):
    """Apart from what the identifiers and clouds of NICs tell, which are those of the test's files."""
    made = machine(choice)
    tree, links = SysfsTree(tmp_path), []
    for number, nic in enumerate(made.nics):
        files = {} if nic.numa_node is None else {"numa_node": str(nic.numa_node)}
        function = tree.function(nic.pci_bus_id, host=nic.pcie_root, bridge=f"0000:00:{number:02x}.7", **files)
        if nic.virtual_function:
            (function / "physfn").symlink_to(function)
        if nic.rdma_device:
            tree.rdma(function, nic.rdma_device, number)
        if nic.interface:
            tree.interface(function, nic.interface)
            link = {"index": number + 2, "name": nic.interface, "parent": nic.pci_bus_id, "mac": nic.mac}
            links.append(Link(**link, mtu=nic.mtu or 0, is_up=True, state="up"))
    found = discover(Interfaces(links, {}, ()), NicOptions(sysfs_root=str(tree.root)))
    assert [each.obstacle for each in found] == [""] * len(made.nics)
    pool = declared(made)["dra.net"]
    assert [_place(device_of(each.nic)) for each in found] == [_place(each) for each in pool.all_devices()]


def _place(device):
    document = device.document()
    others = ("dra.net/pciVendor", "dra.net/pciDevice", "dra.net/ebpf")
    kept = {
        name: value
        for name, value in document["attributes"].items()
        if name not in others and name.startswith(("dra.net/", "resource.kubernetes.io/"))
    }
    return {**document, "attributes": kept}
