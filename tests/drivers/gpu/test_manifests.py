"""Manifests as tutorials of the published driver have them, from the API server to the container, with this driver."""

import pytest
import yaml

from dray.api.gates import ALL_GATES
from dray.controllers.registry import CONTROLLERS
from dray.drivers.devices.classes import device_classes
from dray.drivers.registry import load
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import node, pod

from .world import GPU, clean_up

NODE = "worker"
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {{deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 1}}
    config:
    - requests: [gpu]
      opaque:
        driver: gpu.nvidia.com
        parameters:
          apiVersion: resource.nvidia.com/v1beta1
          kind: GpuConfig
          sharing: {sharing}
"""
SLICED = "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}"
MPS = "{strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50, defaultPinnedDeviceMemoryLimit: 15Gi}}"
PARTITIONS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: partitions}
spec:
  spec:
    devices:
      requests:
      - name: big
        exactly:
          deviceClassName: mig.nvidia.com
          selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}}]
      - name: small
        exactly:
          deviceClassName: mig.nvidia.com
          count: 2
          selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}]
      constraints:
      - {requests: [big, small], matchAttribute: gpu.nvidia.com/parentUUID}
"""


@pytest.fixture
async def world(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 4)
    async with (
        LocalCluster(
            scheduler=Options(), controllers=CONTROLLERS, objects=[node(NODE), *device_classes([GPU])]
        ) as cluster,
        KubeletDouble(cluster.client, NODE, gates=ALL_GATES) as kubelet,
        kubelet.running(load("gpu", machine.settings(DynamicMIG=True))),
    ):
        await kubelet.registered(GPU)
        machine.root_of_daemons = kubelet.root
        yield cluster, kubelet, machine
        clean_up(machine)


async def started(world, name, **members):
    cluster, kubelet, _ = world
    await cluster.create(pod(name, **members))

    async def bound():
        return (await cluster.get("Pod", name))["spec"].get("nodeName")

    await kubelet.eventually(bound, f"{name} is bound")
    return await kubelet.try_pod(name)


def paths(container):
    return [each.path for each in container.device_nodes]


async def test_they_work_unchanged(world):
    cluster, kubelet, machine = world
    for name, sharing in {"sliced": SLICED, "mps": MPS}.items():
        await cluster.create(yaml.safe_load(CLAIM.format(name=name, sharing=sharing)))
    await cluster.create(yaml.safe_load(PARTITIONS))
    # Two pods of one claim have one GPU.
    first, second = [await started(world, name, claims=["sliced"]) for name in ("first", "second")]
    assert paths(first.edits["main"]) == paths(second.edits["main"])
    uuid = machine.gpus[int(paths(first.edits["main"])[0].removeprefix("/dev/nvidia"))].uuid
    assert machine.time_slice(uuid) == 3
    shared = await started(world, "shared", claims=["mps"])
    assert shared.env()["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
    assert "set_default_device_pinned_mem_limit" in machine.calls()[-1]
    cut = await started(world, "cut", templates=["partitions"])
    assert len([path for path in paths(cut.edits["main"]) if "nvidia-caps" in path]) == 2 * 3
    (number,) = [number for number in range(4) if machine.instances(number)]
    assert sorted(profile for profile, _ in machine.instances(number)) == [9, 19, 19]
    # Without a claim of its own, by the name that device plugins use.
    limits = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    plain = await started(world, "plain", **limits)
    assert paths(plain.edits["main"])[0].startswith("/dev/nvidia")
    for name in ("first", "second", "shared", "cut", "plain"):
        await kubelet.end_pod(name)
    assert (machine.instances(number), machine.daemons(), machine.time_slice(uuid)) == ([], [], 0)
