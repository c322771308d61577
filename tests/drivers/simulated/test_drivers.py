"""Simulated drivers behind a kubelet: claims allocated by the scheduler, prepared over gRPC, and seen from inside."""

import os
import subprocess
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import structs

from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner
from dray.drivers.devices.classes import device_classes
from dray.drivers.registry import load
from dray.fleet.choice import choose
from dray.fleet.machine_drivers import drivers_of
from dray.node.cdi import resolve
from dray.node.errors import PrepareError
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, container, device_class, node, pod, request

NODE = "worker"
GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"


class World:
    """A cluster with one node, its kubelet, and a driver."""

    def __init__(self, cluster, kubelet):
        self.cluster = cluster
        self.kubelet = kubelet

    async def edits(self, name, *requests, config=None):
        """What the container of a pod gets."""
        await self.cluster.create(claim(name, *requests, config=config))
        return await self.edits_of(pod(name, claims=[name]))

    async def edits_of(self, document, container="main"):
        name = await self.place(document)
        started = await self.kubelet.start_pod(name)
        return resolve(started.cdi_ids[container], [self.kubelet.cdi])

    async def place(self, document):
        name = document["metadata"]["name"]
        await self.cluster.create(document)

        async def bound():
            return (await self.cluster.get("Pod", name))["spec"].get("nodeName")

        await self.cluster.eventually(bound)
        return name

    async def refusal(self, name, *requests, config=None):
        """Why the claim of a pod is not prepared."""
        await self.cluster.create(claim(name, *requests, config=config))
        with pytest.raises(PrepareError) as refused:
            await self.kubelet.try_pod(await self.place(pod(name, claims=[name])))
        return str(refused.value)


@asynccontextmanager
async def world(driver, **settings):
    made = load(driver, settings) if isinstance(driver, str) else driver
    objects = [node(NODE, cpu="64"), *device_classes([made.name])]
    async with (
        LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=objects) as cluster,
        KubeletDouble(cluster.client, NODE) as kubelet,
    ):
        place = RunnerOptions(node_name=NODE, kubelet_root=kubelet.root, cdi_directory=kubelet.cdi)
        async with DriverRunner(made, cluster.client, place):
            await kubelet.registered(made.name)
            yield World(cluster, kubelet)


def nvidia_smi(edits, *arguments):
    """Runs the mounted file with the environment of the container."""
    (mount,) = {(each.host_path, each.container_path) for each in edits.mounts}
    assert mount[1] == "/usr/local/bin/nvidia-smi"
    environment = {"PATH": os.environ["PATH"], **edits.environment}
    done = subprocess.run([mount[0], *arguments], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


async def test_nvidia_smi_shows_the_allocated_gpus_alone():
    async with world("simulated-gpu", machine="p5.48xlarge") as here:
        edits = await here.edits("p", request("gpu", deviceClassName=GPU, count=2))
        status, lines = nvidia_smi(edits, "-L")
        assert status == 0
        stored = await here.cluster.get("ResourceClaim", "p")
        held = [each["device"] for each in stored["status"]["allocation"]["devices"]["results"]]
        slices = await here.cluster.list("ResourceSlice")
        uuids = {
            device["name"]: device["attributes"]["uuid"]["string"]
            for each in slices
            for device in each["spec"]["devices"]
        }
        assert lines == [
            f"GPU {name.removeprefix('gpu-')}: NVIDIA H100 80GB HBM3 (UUID: {uuids[name]})" for name in sorted(held)
        ]
        query = ("--query-gpu=index,memory.total,driver_version", "--format=csv,noheader,nounits")
        assert nvidia_smi(edits, *query)[1][0] == f"{sorted(held)[0].removeprefix('gpu-')}, 81559, 580.105.8"
        assert "NVIDIA H100 80GB HBM3" in "\n".join(nvidia_smi(edits)[1])


async def test_nvidia_smi_shows_partitions_under_their_gpu():
    async with world("simulated-gpu", machine="a3-highgpu-1g:mig") as here:
        small = "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"
        big = "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"
        wanted = [
            request("small", deviceClassName=MIG, count=2, selectors=[small]),
            request("big", deviceClassName=MIG, selectors=[big]),
        ]
        lines = nvidia_smi(await here.edits("p", *wanted), "-L")[1]
        assert lines[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
        assert [each.split()[:4] for each in lines[1:]] == [
            ["MIG", "1g.10gb", "Device", "0:"],
            ["MIG", "1g.10gb", "Device", "1:"],
            ["MIG", "3g.40gb", "Device", "2:"],
        ]
        assert all("(UUID: MIG-" in each for each in lines[1:])


async def test_a_container_sees_the_devices_of_its_own_request():
    async with world("simulated-gpu", machine="p5.48xlarge") as here:
        await here.cluster.create(claim("c", *(request(name, deviceClassName=GPU) for name in ("left", "right"))))
        document = pod("p", claims={"gpus": "c"})
        resources = {"claims": [{"name": "gpus", "request": "right"}]}
        document["spec"]["containers"] = [{**container("main"), "resources": resources}]
        edits = await here.edits_of(document)
        assert len(nvidia_smi(edits, "-L")[1]) == 1


async def test_without_a_gpu_nvidia_smi_finds_none():
    async with world("simulated-gpu", machine="p5.48xlarge") as here:
        edits = await here.edits("p", request(deviceClassName=GPU))
        edits.environment.clear()
        assert nvidia_smi(edits) == (6, ["No devices were found"])


@pytest.mark.parametrize(
    ("sharing", "problem"),
    [
        ({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}, ""),
        ({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 500}}, "give a number from 0 to 100"),
        ({"strategy": "TimeSlicing", "mpsConfig": {}}, "mpsConfig belongs to the strategy MPS"),
        ({"strategy": "Magic"}, "Magic"),
    ],
)
async def test_configuration_of_claims_is_taken_as_the_real_driver_takes_it(sharing, problem):
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    config = [{"requests": ["gpu"], "opaque": {"driver": GPU, "parameters": parameters}}]
    async with world("simulated-gpu", machine="a3-highgpu-1g") as here:
        await here.cluster.create(claim("p", request(deviceClassName=GPU), config=config))
        await here.cluster.create(pod("p", claims=["p"]))

        async def bound():
            return (await here.cluster.get("Pod", "p"))["spec"].get("nodeName")

        await here.cluster.eventually(bound)
        if problem:
            with pytest.raises(Exception, match=problem):
                await here.kubelet.try_pod("p")
            return
        started = await here.kubelet.start_pod("p")
        edits = resolve(started.cdi_ids["main"], [here.kubelet.cdi])
        assert edits.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"


async def test_tpus_come_all_together_with_their_topology():
    async with world("simulated-tpu", machine="ct6e-standard-4t") as here:
        edits = await here.edits("p", request(deviceClassName="tpu.google.com", allocationMode="All"))
        assert edits.environment["TPU_ACCELERATOR_TYPE"] == "v6e-4"
        assert edits.environment["TPU_TOPOLOGY"] == "2x2"


async def test_interfaces_stand_in_the_status_of_their_claim():
    async with world("simulated-nic", machine="a3-highgpu-8g") as here:
        await here.edits("p", request("nic", deviceClassName="dra.net"))
        (status,) = (await here.cluster.get("ResourceClaim", "p"))["status"]["devices"]
        assert status["networkData"]["interfaceName"] == "eth1"


PUBLISHED = """
apiVersion: fleet.dray.dev/v1alpha1
kind: MachineType
name: fpgas
cpus: 8
memory: 8Gi
slices:
- driver: fpga.example.com
  sharedCounters: [{name: card, counters: {regions: {value: "2"}}}]
- driver: fpga.example.com
  devices:
  - {name: whole, consumesCounters: [{counterSet: card, counters: {regions: {value: "2"}}}]}
  - name: half
    attributes: {board: {string: "{uuid:1}"}}
    consumesCounters: [{counterSet: card, counters: {regions: {value: "1"}}}]
"""


async def test_devices_as_somebody_published_them(tmp_path):
    (tmp_path / "fpgas.yaml").write_text(PUBLISHED)
    (chosen,) = choose([str(tmp_path / "fpgas.yaml"), "fpgas=1"]).machines
    machine = replace(chosen, name=NODE, options=structs.replace(chosen.options, cpus="none"))
    (driver,) = drivers_of(machine)
    async with world(driver) as here:
        await here.cluster.create(device_class("fpga", 'device.driver == "fpga.example.com"'))
        half = request(deviceClassName="fpga", selectors=["has(device.attributes['fpga.example.com'].board)"])
        edits = await here.edits("p", half)
        assert edits.environment == {"SIMULATED_DEVICE_HALF": f"fpga.example.com/{NODE}/half"}
        slices = await here.cluster.list("ResourceSlice")
        boards = [
            device["attributes"]["board"]["string"]
            for each in slices
            for device in each["spec"].get("devices", ())
            if "attributes" in device
        ]
        assert boards == [machine.uuid("1")]


@pytest.mark.parametrize(
    ("members", "problem"),
    [({"domainID": "some-uid", "allocationMode": "Single"}, ""), ({"domainID": ""}, "domainID must not be empty")],
)
async def test_channels_of_compute_domains(members, problem):
    (chosen,) = choose(["gb200-nvl72-tray=1"]).machines
    drivers = drivers_of(replace(chosen, name=NODE))
    (driver,) = (each for each in drivers if each.name == "compute-domain.nvidia.com")
    kind = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig"}
    config = [{"opaque": {"driver": driver.name, "parameters": {**kind, **members}}}]
    channel = request(deviceClassName="compute-domain-default-channel.nvidia.com")
    async with world(driver) as here:
        if problem:
            assert problem in await here.refusal("p", channel, config=config)
            return
        edits = await here.edits("p", channel, config=config)
        value = f"compute-domain.nvidia.com/{NODE}/channel-0"
        assert edits.environment == {"SIMULATED_DEVICE_CHANNEL_0": value}


def gpu_config(sharing, kind="GpuConfig"):
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
    return [{"opaque": {"driver": GPU, "parameters": parameters}}]


TIME_SLICING = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
MPS = {
    "strategy": "MPS",
    "mpsConfig": {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "15Gi"},
}


async def test_nvidia_smi_shows_how_a_gpu_is_shared():
    async with world("simulated-gpu", machine="p5.48xlarge") as here:
        sliced = await here.edits("sliced", request("gpu", deviceClassName=GPU), config=gpu_config(TIME_SLICING))
        assert nvidia_smi(sliced)[1][-1].endswith("Default            TimeSlicing Long")
        assert nvidia_smi(sliced, "compute-policy", "--list")[1] == ["GPU 0: Timeslice Long"]
        served = await here.edits("served", request("gpu", deviceClassName=GPU), config=gpu_config(MPS))
        assert nvidia_smi(served)[1][-1].endswith("Exclusive_Process  MPS 50% 15360M")
        assert nvidia_smi(served, "--query-gpu=index,compute_mode", "--format=csv,noheader")[1] == [
            "0, Exclusive_Process"
        ]
        uuid = nvidia_smi(served, "--query-gpu=uuid", "--format=csv,noheader")[1][0]
        assert [served.environment[f"{each}_VISIBLE_DEVICES"] for each in ("CUDA", "NVIDIA")] == [uuid, uuid]
        assert served.environment["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"


async def test_sharing_that_the_real_driver_refuses_is_refused():
    async with world("simulated-gpu", machine="a3-highgpu-1g:mig") as here:
        wanted = request("part", deviceClassName=MIG)
        said = await here.refusal("part", wanted, config=gpu_config(MPS, "MigDeviceConfig"))
        assert "MPS is not for partitions that are made for a claim" in said


async def test_claims_that_share_a_gpu_need_the_same_configuration():
    async with world("simulated-gpu", machine="a3-highgpu-1g:shared-memory") as here:
        share = request("gpu", deviceClassName=GPU, capacity={"requests": {"memory": "20Gi"}})
        edits = await here.edits("first", share, config=gpu_config(TIME_SLICING))
        assert "20480MiB" in nvidia_smi(edits)[1][-1]
        assert "claims that share a GPU need the same" in await here.refusal("second", share)


async def test_the_status_of_a_nic_says_what_its_configuration_would_set():
    def config(name):
        parameters = {"interface": {"name": name, "addresses": ["10.0.0.18/16"]}}
        return [{"requests": ["nic"], "opaque": {"driver": "dra.net", "parameters": parameters}}]

    async with world("simulated-nic", machine="a3-ultragpu-8g") as here:
        wanted = request("nic", deviceClassName="mrdma.google.com")
        await here.cluster.create(claim("n", wanted, config=config("net1")))
        await here.kubelet.start_pod(await here.place(pod("p", claims=["n"])))
        [device] = (await here.cluster.get("ResourceClaim", "n"))["status"]["devices"]
        assert device["networkData"]["interfaceName"] == "net1"
        assert device["networkData"]["ips"] == ["10.0.0.18/16"]
        assert {each["type"] for each in device["conditions"]} == {"Ready", "NetworkReady"}
        two = request("nic", deviceClassName="mrdma.google.com", count=2)
        assert "interface.name net1 is for 2 devices" in await here.refusal("q", two, config=config("net1"))
        assert "is longer than 15 characters" in await here.refusal("r", wanted, config=config("a" * 16))
