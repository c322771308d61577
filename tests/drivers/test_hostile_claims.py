"""Drivers given hostile claims: a bad claim fails alone with a short reason, and the next good claim is served."""

import copy
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.driver.configs import Config, decode
from dray.driver.errors import InvalidConfig
from dray.drivers.cpu.assignment import CpuParameters
from dray.drivers.devices import compute_domain, gpu_configs
from dray.drivers.nic.config import NetworkConfig
from dray.node.cpusets.lists import CpusetError, parse_cpuset
from dray.node.cpusets.pinning import claimed_cpus
from dray.node.errors import PrepareError
from dray.testing.cluster import kind_of
from dray.testing.objects import allocation, claim, consumer, pod
from tests.drivers.cpu.machines import machine, write_sysfs
from tests.drivers.cpu.test_driver import NODE, cpus, world

NVIDIA = "resource.nvidia.com/v1beta1"
VALID = [
    ((CpuParameters,), {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "0-3,8"}}),
    (
        gpu_configs.CONFIGS,
        {
            "apiVersion": NVIDIA,
            "kind": "GpuConfig",
            "sharing": {
                "strategy": "MPS",
                "mpsConfig": {
                    "defaultActiveThreadPercentage": 50,
                    "defaultPinnedDeviceMemoryLimit": "10Gi",
                    "defaultPerDevicePinnedMemoryLimit": {"0": "5Gi"},
                },
            },
        },
    ),
    (
        compute_domain.CONFIGS,
        {"apiVersion": NVIDIA, "kind": "ComputeDomainChannelConfig", "domainID": "u", "allocationMode": "All"},
    ),
    (
        (NetworkConfig,),
        {
            "interface": {"name": "net1", "addresses": ["10.0.0.2/24"], "mtu": 1400, "vrf": {"name": "red"}},
            "routes": [{"destination": "10.1.0.0/16", "gateway": "10.0.0.1", "table": 7}],
            "neighbors": [{"destination": "10.0.0.9", "hardwareAddr": "02:00:00:00:00:01"}],
            "ethtool": {"features": {"gro": True}},
        },
    ),
]
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(
        ["../../etc/passwd", "a\0b", "9" * 5000, "0-65535," * 1000, "1e999999999", "1" * 400 + "Ei", "-" * 9000, "٣"]
    ),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)),
)


def places(document, path=()):
    """The path of every member and item, the document itself left out."""
    members = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in members:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@given(data=st.data())
def test_mutated_parameters_are_decoded_or_refused_with_a_short_reason(data):
    types, valid = data.draw(st.sampled_from(VALID))
    parameters = copy.deepcopy(valid)
    assert isinstance(decode(parameters, types, "here"), Config)
    *parents, last = data.draw(st.sampled_from(list(places(valid))))
    inside = parameters
    for key in parents:
        inside = inside[key]
    inside[last] = data.draw(HOSTILE)
    assert len(refusal(parameters, types)) < 1024


def refusal(parameters, types):
    """The reason why the parameters are refused; empty if they are decoded."""
    try:
        decode(parameters, types, "here")
    except InvalidConfig as error:
        return str(error)
    return ""


def test_a_list_of_cpus_that_repeats_ranges_without_end_is_refused():
    with pytest.raises(CpusetError, match="names CPUs too often"):
        parse_cpuset(",".join(["0-65535"] * 1000))


def opaque(parameters):
    return {"source": "FromClaim", "opaque": {"driver": "dra.cpu", "parameters": parameters}}


def result(device="cpudevnuma000", **members):
    return {
        "request": "cpus",
        "driver": "dra.cpu",
        "pool": NODE,
        "device": device,
        "shareID": "28d3d7a6-2c5c-4e61-8a3f-3f6d4a3d7d6c",
        "consumedCapacity": {"dra.cpu/cpu": "1"},
        **members,
    }


CPUSET = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": "0-65535," * 1000 + "1"}}
HOSTILE_ALLOCATIONS = {
    "is not on this machine": ([result("no-such-device")], []),
    "1000000000000000000 CPUs are allocated and 6 are free": (
        [result(consumedCapacity={"dra.cpu/cpu": "1e18"})],
        [],
    ),
    "1 CPUs are allocated and 0 are free": ([result()] * 32, []),
    "names CPUs too often": ([result()], [opaque(CPUSET)]),
    "v1 ../../etc is not known": ([result()], [opaque({"apiVersion": "v1", "kind": "../../etc"})]),
    "Expected `object`": ([result()], [opaque({"apiVersion": "v1alpha1", "cpuConfig": ["cpuset"]})]),
    "unknown field": ([result()], [opaque({"apiVersion": "v1alpha1", "x" * 300: 1})] * 32),
}


async def hostile_pod(cluster, name, results, configs):
    """Creates a pod on the node and a claim with this allocation, as somebody with the right to write it could."""
    made = await cluster.create(pod(name, claims=[name], nodeName=NODE))
    stored = await cluster.create(claim(name, cpus(1)))
    allocated = allocation("unused", pool=NODE, nodeName=NODE)
    allocated["devices"] = {"results": results, "config": configs}
    status = {"allocation": allocated, "reservedFor": [consumer(made)]}
    return await cluster.client.update_status(kind_of("ResourceClaim"), {**stored, "status": status})


async def test_hostile_allocations_fail_alone_and_good_claims_are_served(tmp_path, caplog):
    root = write_sysfs(tmp_path / "sys", machine(nodes=2, cores=4))
    settings = {"sysfsRoot": str(root), "cgroupRoot": str(tmp_path / "none"), "reservedCPUs": "0,8"}
    async with world(**settings) as here:
        for number, (reason, (results, configs)) in enumerate(HOSTILE_ALLOCATIONS.items()):
            name = f"hostile-{number}"
            await hostile_pod(here.cluster, name, results, configs)
            with pytest.raises(PrepareError) as failure:
                await here.kubelet.try_pod(name)
            assert reason in str(failure.value)
            assert len(str(failure.value)) < 2048
            await here.kubelet.end_pod(name)
            assert here.cdi_files() == []
        assert claimed_cpus(await here.pod("good", cpus(2)))
    traces = [record.getMessage() for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
    # gRPC's poller is one per process, and still calls the closed event loops of earlier tests.
    traces = [trace for trace in traces if "PollerCompletionQueue" not in trace]
    assert traces == []
