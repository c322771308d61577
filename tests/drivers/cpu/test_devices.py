from dataclasses import replace

import msgspec
import pytest

from dray.drivers.cpu.devices import make_devices
from dray.drivers.cpu.options import CpuOptions, CpuOptionsError
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, device_class, node, pod, request, resource_slice
from tests.drivers.cpu.machines import machine, with_roots

TWO_SOCKETS = with_roots(machine(sockets=2, nodes=2, cores=4), pci0000_00="0-3,16-19", pci0000_c0="12-15,28-31")


def options(**given):
    return msgspec.convert(given, CpuOptions)


def documents(topology=TWO_SOCKETS, **given):
    return [device.published.document() for device in make_devices(topology, options(**given)).values()]


def test_a_numa_node_is_a_device_with_its_cpus_as_capacity():
    first, *others = documents()
    assert first == {
        "name": "cpudevnuma000",
        "attributes": {
            "dra.cpu/numCPUs": {"int": 8},
            "dra.cpu/numaNodeID": {"int": 0},
            "dra.cpu/smtEnabled": {"bool": True},
            "dra.cpu/socketID": {"int": 0},
            "dra.net/numaNode": {"int": 0},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "capacity": {"dra.cpu/cpu": {"value": "8"}},
        "allowMultipleAllocations": True,
    }
    assert [each["name"] for each in others] == ["cpudevnuma001", "cpudevnuma002", "cpudevnuma003"]
    assert others[-1]["attributes"]["dra.cpu/socketID"] == {"int": 1}


def test_a_socket_has_no_numa_node():
    devices = documents(groupBy="socket")
    assert [each["name"] for each in devices] == ["cpudevsocket000", "cpudevsocket001"]
    assert sorted(devices[0]["attributes"]) == ["dra.cpu/numCPUs", "dra.cpu/smtEnabled", "dra.cpu/socketID"]
    assert devices[0]["capacity"] == {"dra.cpu/cpu": {"value": "16"}}


def test_a_machine_is_one_device():
    (device,) = documents(groupBy="machine")
    assert device["name"] == "cpudevmachine"
    assert sorted(device["attributes"]) == ["dra.cpu/numCPUs", "dra.cpu/smtEnabled"]


def test_single_cpus_are_numbered_with_siblings_side_by_side():
    devices = documents(cpuDeviceMode="individual")
    assert [each["name"] for each in devices[:3]] == ["cpudev000", "cpudev001", "cpudev002"]
    assert [each["attributes"]["dra.cpu/cpuID"]["int"] for each in devices[:4]] == [0, 16, 1, 17]
    assert devices[9]["attributes"] == {
        "dra.cpu/cacheL3ID": {"int": 1},
        "dra.cpu/coreID": {"int": 4},
        "dra.cpu/coreType": {"string": "standard"},
        "dra.cpu/cpuID": {"int": 20},
        "dra.cpu/numaNodeID": {"int": 1},
        "dra.cpu/smtEnabled": {"bool": True},
        "dra.cpu/socketID": {"int": 0},
        "dra.net/numaNode": {"int": 1},
        "resource.kubernetes.io/numaNode": {"int": 1},
    }


def test_reserved_cpus_are_not_published():
    assert documents(reservedCPUs="0-1,16")[0]["capacity"] == {"dra.cpu/cpu": {"value": "5"}}
    devices = documents(cpuDeviceMode="individual", reservedCPUs="0-1,16")
    assert [each["attributes"]["dra.cpu/cpuID"]["int"] for each in devices[:3]] == [2, 18, 3]
    assert len(documents(reservedCPUs="0-3,16-19")) == 3


def test_whole_cores_are_a_request_policy_and_half_reserved_cores_are_not_given():
    (first, *_) = documents(fullCoresOnly=True, reservedCPUs="0")
    policy = {"default": "6", "validRange": {"min": "2", "step": "2"}}
    assert first["capacity"] == {"dra.cpu/cpu": {"value": "6", "requestPolicy": policy}}


def test_pcie_roots_are_a_list_if_asked_for():
    listed = [each["attributes"].get("resource.kubernetes.io/pcieRoot") for each in documents(exposePCIeRoots=True)]
    assert listed == [{"strings": ["pci0000:00"]}, None, None, {"strings": ["pci0000:c0"]}]


def test_claimed_cpus_can_count_as_cpu_of_the_node():
    mapped = {"publishNodeAllocatableResourceMapping": True}
    mapping = {"capacityKey": "dra.cpu/cpu", "capacityMultiplier": "1"}
    assert documents(**mapped)[0]["nodeAllocatableResources"] == {"cpu": {"mapping": mapping}}
    single = documents(cpuDeviceMode="individual", **mapped)[0]
    assert single["nodeAllocatableResources"] == {"cpu": {"mapping": {"deviceMultiplier": "1"}}}


def test_a_kernel_without_numa_has_one_group_without_node():
    flat = machine(cores=2)
    flat = replace(flat, cpus={number: replace(cpu, numa_node=None) for number, cpu in flat.cpus.items()})
    (device,) = documents(flat)
    assert device["name"] == "cpudevnuma000"
    assert "resource.kubernetes.io/numaNode" not in device["attributes"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reservedCPUs": "0-99"}, "this machine has no CPU 32; it has 32, up to 31"),
        ({"reservedCPUs": "0-31"}, "leaves no CPU to publish"),
    ],
)
def test_options_that_do_not_fit_the_machine_are_refused(given, message):
    with pytest.raises(CpuOptionsError, match=message):
        options(**given).check(TWO_SOCKETS)


@pytest.mark.parametrize("given", [{"reservedCPUs": "a-b"}, {"cpuDeviceMode": "single"}, {"reserved": "0"}])
def test_options_that_are_none_are_refused(given):
    with pytest.raises(msgspec.ValidationError):
        options(**given)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"capacity": {"requests": {"dra.cpu/cpu": "3"}}}),
        ({"fullCoresOnly": True}, {"capacity": {"requests": {"dra.cpu/cpu": "4"}}}),
        ({"cpuDeviceMode": "individual"}, {"count": 3}),
        ({"exposePCIeRoots": True, "publishNodeAllocatableResourceMapping": True, "groupBy": "socket"}, {}),
    ],
)
async def test_an_api_server_takes_the_devices_and_the_scheduler_gives_them_to_claims(given, wanted):
    near = "device.attributes['dra.cpu'].socketID == 1"
    objects = [
        node("n", cpu="64"),
        resource_slice("n", *documents(**given), driver="dra.cpu", nodeName="n"),
        device_class("dra.cpu", "device.driver == 'dra.cpu'"),
        claim("c", request("cpus", deviceClassName="dra.cpu", selectors=[near], **wanted)),
        pod("p", claims=["c"]),
    ]
    async with LocalCluster(scheduler=Options(), objects=objects) as cluster:

        async def results():
            return (await cluster.get("ResourceClaim", "c")).get("status", {}).get("allocation")

        allocated = (await cluster.eventually(results))["devices"]["results"]
        assert len(allocated) == wanted.get("count", 1)
        published = {each["name"]: each for each in documents(**given)}
        assert all(published[each["device"]]["attributes"]["dra.cpu/socketID"] == {"int": 1} for each in allocated)
