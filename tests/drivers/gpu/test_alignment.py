"""The drivers of GPUs, NICs and CPUs together, each on the files of a p5.48xlarge: the scheduler puts devices side by
side by what they publish, and containers get what each of them prepares."""

import os
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import yaml
from msgspec import structs

from dray.api.gates import ALL_GATES
from dray.controllers.registry import CONTROLLERS
from dray.drivers.devices.classes import device_classes
from dray.drivers.registry import load
from dray.fleet.choice import choose
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import node, pod
from tests.drivers.cpu.machines import write_sysfs
from tests.drivers.nic.trees import SysfsTree
from tests.fleet.rehearsed import EXAMPLES

NODE = "worker"
DRIVERS = ("gpu.nvidia.com", "dra.net", "dra.cpu")
ROOT = "resource.kubernetes.io/pcieRoot"


def write_nics(directory, nics):
    """Settings of a driver that finds these."""
    tree, files = SysfsTree(directory / "sys"), directory / "dev/infiniband"
    files.mkdir(parents=True)
    (files / "rdma_cm").symlink_to("/dev/null")
    for number, nic in enumerate(nics):
        place = {"host": nic.pcie_root, "bridge": f"0000:00:{number:02x}.7", "numa_node": str(nic.numa_node)}
        tree.rdma(tree.function(nic.pci_bus_id, **place), nic.rdma_device, number)
        (files / f"uverbs{number}").symlink_to("/dev/null")
    places = {"sysfsRoot": tree.root, "deviceRoot": directory / "dev", "stateDirectory": directory / "state"}
    return {**places, "interfaces": "none"}


def drivers(machine, gpu_machine, directory):
    made = machine.settings()
    nics = write_nics(directory / "nic", gpu_machine.nics)
    cpus = {"sysfsRoot": write_sysfs(directory / "cpu", gpu_machine.topology), "cgroupRoot": directory / "none"}
    settings = {"gpu": made, "nic": nics, "cpu": {**cpus, "exposePCIeRoots": True}}
    return [load(name, {key: str(value) for key, value in given.items()}) for name, given in settings.items()]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the NIC driver changes networks")
@pytest.mark.time_limit(120)
async def test_eight_pods_fill_the_machine_and_each_has_devices_of_one_root(gpu_machine, tmp_path):
    (chosen,) = choose(["p5.48xlarge=1"]).machines
    kind = replace(chosen, options=structs.replace(chosen.options, pcie_roots=True))
    template = next(yaml.safe_load_all((EXAMPLES / "alignment/one-root.yaml").read_text()))
    objects = [node(NODE, cpu="192", pods="110"), *device_classes(DRIVERS), template]
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            LocalCluster(scheduler=Options(), controllers=CONTROLLERS, objects=objects)
        )
        kubelet = await stack.enter_async_context(KubeletDouble(cluster.client, NODE, gates=ALL_GATES))
        for each in drivers(gpu_machine("p5.48xlarge"), kind, tmp_path):
            await stack.enter_async_context(kubelet.running(each))
            await kubelet.registered(each.name)
        for number in range(9):
            await cluster.create(pod(f"p{number}", templates=["one-root"]))
        roots = set()
        for name in await placed(cluster, kubelet, 8):
            started = await kubelet.start_pod(name)
            roots.add(await root_of(cluster, name))
            edits = started.edits["main"]
            paths = [each.path for each in edits.device_nodes]
            assert len([path for path in paths if "uverbs" in path]) == 1
            assert len([path for path in paths if path.removeprefix("/dev/nvidia").isdecimal()]) == 1
            (cpus,) = [value for key, value in edits.environment.items() if key.startswith("DRA_CPUSET")]
            assert cpus
        assert len(roots) == 8
        (last,) = {f"p{number}" for number in range(9)} - set(await placed(cluster, kubelet, 8))
        await kubelet.eventually(lambda: refusal(cluster, last), "the ninth is told why")


async def placed(cluster, kubelet, count):
    async def bound():
        names = [each["metadata"]["name"] for each in await cluster.list("Pod") if each["spec"].get("nodeName")]
        return names if len(names) == count else None

    return await kubelet.eventually(bound, f"{count} pods are bound")


async def root_of(cluster, name):
    """The one that all devices of the pod's claim have."""
    devices = {
        (one["spec"]["driver"], each["name"]): each["attributes"]
        for one in await cluster.list("ResourceSlice")
        for each in one["spec"].get("devices", ())
    }
    (claim,) = [each for each in await cluster.list("ResourceClaim") if owner_of(each) == name]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert {each["driver"] for each in results} == set(DRIVERS)
    held = [devices[each["driver"], each["device"]][ROOT] for each in results]
    (root,) = set.intersection(*(set(each.get("strings") or [each["string"]]) for each in held))
    return root


def owner_of(claim):
    return claim["metadata"]["ownerReferences"][0]["name"]


async def refusal(cluster, name):
    conditions = (await cluster.get("Pod", name)).get("status", {}).get("conditions", ())
    return any("gpu: needs 1, 0 available" in each.get("message", "") for each in conditions)
