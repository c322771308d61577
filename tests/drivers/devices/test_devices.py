"""Devices as the published drivers have them, compared with what was seen of those."""

import pytest

from dray.api import intake
from dray.api.catalogue import built_in
from dray.api.gates import ALL_GATES
from dray.api.rules import Rules
from dray.cel.selector import Expressions
from dray.drivers.devices import gpu, mig
from dray.drivers.devices.classes import device_classes
from dray.fleet.catalogue import library
from dray.fleet.choice import choose
from dray.fleet.pools import declared, pools_of, slice_of

GPU = "gpu.nvidia.com"


def machine(choice):
    return choose([choice]).machines[0]


def devices(choice, driver=GPU):
    contents = pools_of(machine(choice))[driver]
    return {each["name"]: each for content in contents for each in content.devices}


def test_a_whole_gpu_has_the_attributes_of_the_published_driver():
    found = devices("p5.48xlarge=1")
    assert list(found) == [f"gpu-{n}" for n in range(8)]
    (attributes, capacity) = found["gpu-0"]["attributes"], found["gpu-0"]["capacity"]
    assert attributes.pop("uuid")["string"].startswith("GPU-")
    assert attributes == {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.105.8"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "addressingMode": {"string": "HMM"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:53:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:44"},
        "resource.kubernetes.io/numaNode": {"int": 0},
    }
    assert capacity == {"memory": {"value": "81559Mi"}}


def test_partitions_of_an_h100_take_its_counters():
    pool = declared(machine("a3-highgpu-1g:mig=1"))[GPU]
    (set_,) = pool.counter_sets()
    assert set_["name"] == "gpu-0-counter-set"
    amounts = {name: each["value"] for name, each in set_["counters"].items()}
    slices = {f"memory-slice-{n}": "1" for n in range(8)}
    engines = {"copy-engines": "8", "decoders": "7", "encoders": "0", "jpeg-engines": "7", "ofa-engines": "1"}
    assert amounts == {"multiprocessors": "132", "memory": "81152Mi", **engines, **slices}
    found = devices("a3-highgpu-1g:mig=1")
    # Seven placements of 1g, with and without media extensions, 4 of double memory, 3, 2, 1 and 1, and the whole GPU.
    assert len(found) == 7 + 7 + 4 + 3 + 2 + 1 + 1 + 1
    upper = found["gpu-0-mig-3g40gb-9-4"]
    taken = {name: each["value"] for name, each in upper["consumesCounters"][0]["counters"].items()}
    assert taken == {
        "memory": "40448Mi",
        "multiprocessors": "60",
        "copy-engines": "3",
        "decoders": "3",
        "encoders": "0",
        "jpeg-engines": "3",
        "ofa-engines": "0",
        **{f"memory-slice-{n}": "1" for n in range(4, 8)},
    }
    assert upper["attributes"]["profile"] == {"string": "3g.40gb"}
    assert upper["attributes"]["parentUUID"] == found["gpu-0"]["attributes"]["uuid"]
    assert "gpu-0-mig-1g10gb-me-20-0" in found
    whole = {name: each["value"] for name, each in found["gpu-0"]["consumesCounters"][0]["counters"].items()}
    assert whole == amounts


def test_an_ampere_gpu_in_mig_mode_is_not_offered_whole():
    found = devices("p4d.24xlarge:mig=1")
    assert len(found) == 8 * 25
    assert not any(each["attributes"]["type"] == {"string": "gpu"} for each in found.values())


@pytest.mark.parametrize(
    ("choice", "capacity"),
    [
        ("shared-memory", {"memory": ("81559Mi", "1Mi", "81559Mi", "1Mi")}),
        ("shared-unlimited", {"memory": ("0", "0", "81559Mi", "1Mi")}),
        ("shares-4", {"memory": ("0", "0", "81559Mi", "1Mi"), "shares": ("1", "1", "4", "1")}),
    ],
)
def test_shared_gpus_have_capacity_to_give(choice, capacity):
    device = devices(f"a3-highgpu-1g:{choice}=1")["gpu-0"]
    assert device["allowMultipleAllocations"] is True
    policies = {name: each["requestPolicy"] for name, each in device["capacity"].items()}
    found = {
        name: (policy["default"], *map(policy["validRange"].get, ("min", "max", "step")))
        for name, policy in policies.items()
    }
    assert found == capacity


def test_nics_stand_beside_the_gpus_they_share_a_root_with():
    nics = devices("p5.48xlarge=1", "dra.net")
    assert len(nics) == 32
    efa = nics["pci-0000-4f-00-0"]["attributes"]
    assert efa["dra.net/rdmaDevice"] == {"string": "rdmap79s0"}
    assert efa["dra.net/rdma"] == {"bool": True}
    gpu_root = devices("p5.48xlarge=1")["gpu-0"]["attributes"]["resource.kubernetes.io/pcieRoot"]
    assert efa["resource.kubernetes.io/pcieRoot"] == gpu_root


def test_tpu_chips_are_named_after_their_files():
    chips = devices("ct6e-standard-4t=1", "tpu.google.com")
    assert list(chips) == ["0", "1", "2", "3"]
    assert chips["2"]["attributes"]["tpuGen"] == {"string": "v6e"}
    assert chips["2"]["attributes"]["topology"] == {"string": "2x2"}


def test_cpus_are_grouped_by_numa_node():
    groups = devices("p5.48xlarge=1", "dra.cpu")
    assert list(groups) == ["cpudevnuma000", "cpudevnuma001"]
    assert groups["cpudevnuma001"]["capacity"]["dra.cpu/cpu"]["value"] == "96"


@pytest.mark.parametrize("mode", ["", ":mig", ":shares-3"])
def test_an_api_server_takes_every_machine_type(mode):
    """With all that the API's rules say about slices, devices, counters and policies."""
    node = {"metadata": {"uid": "c1d5a2c2-7a4b-4c80-8a4e-0a3e5d1f4a11"}}
    for name in library().machine_types:
        for driver, contents in pools_of(made := machine(f"{name}{mode}=1")).items():
            for number, content in enumerate(contents):
                document = slice_of(made, driver, number, len(contents), content, node)
                assert not refusals(document), (name, driver)
    for each in device_classes([GPU, "dra.net", "tpu.google.com", "dra.cpu", "compute-domain.nvidia.com"]):
        assert not refusals(each), each


def refusals(document):
    target = built_in(document["apiVersion"], document["kind"])
    rules = Rules(ALL_GATES, expressions=Expressions())
    verdict = intake.create(document, target, intake.Place(""), rules, now="2030-01-01T00:00:00Z")
    return verdict if isinstance(verdict, intake.Refusal) else None


def test_two_machines_have_gpus_of_their_own():
    first, second = choose(["a3-highgpu-8g=2"]).machines
    uuids = {each.uuid for made in (first, second) for each in made.gpus}
    assert len(uuids) == 16
    assert [gpu.whole(each) for each in first.gpus] == [gpu.whole(each) for each in machine("a3-highgpu-8g=1").gpus]
    assert mig.partitioned(first.gpus[0]) == mig.partitioned(machine("a3-highgpu-8g=1").gpus[0])
