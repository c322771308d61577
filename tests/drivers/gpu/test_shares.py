"""Several claims on one GPU, placed by the scheduler: how many fit, by memory and by number."""

import pytest

from dray.api.gates import ALL_GATES
from dray.drivers.devices.classes import device_classes
from dray.drivers.registry import load
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, node, pod, request

from .world import GPU

NODE = "worker"


@pytest.mark.parametrize(
    ("shares", "capacity", "fitting"),
    [("memory", {"memory": "20Gi"}, 2), ("3", {}, 3), ("4", {"shares": "2"}, 2)],
)
async def test_so_many_pods_have_one_gpu(gpu_machine, shares, capacity, fitting):
    machine = gpu_machine("p4d.24xlarge", 1)
    asked = {"capacity": {"requests": capacity}} if capacity else {}
    async with (
        LocalCluster(scheduler=Options(), objects=[node(NODE), *device_classes([GPU])]) as cluster,
        KubeletDouble(cluster.client, NODE, gates=ALL_GATES) as kubelet,
        kubelet.running(load("gpu", machine.settings(ConsumableShares=shares))),
    ):
        await kubelet.registered(GPU)
        names = [f"p{number}" for number in range(fitting + 1)]
        for name in names:
            await cluster.create(claim(name, request(deviceClassName=GPU, **asked)))
            await cluster.create(pod(name, claims=[name]))

        async def bound():
            pods = [await cluster.get("Pod", name) for name in names]
            refused = [each for each in pods if not each["spec"].get("nodeName")]
            conditions = [found for each in refused for found in each.get("status", {}).get("conditions", ())]
            return len(refused) == 1 and conditions and [each for each in pods if each not in refused]

        placed = await kubelet.eventually(bound, f"{fitting} pods are bound, one is not")
        for each in placed:
            started = await kubelet.try_pod(each["metadata"]["name"])
            uuid = machine.gpus[0].uuid
            assert started.env() == {"CUDA_VISIBLE_DEVICES": uuid, "NVIDIA_VISIBLE_DEVICES": uuid}
            assert started.edits["main"].device_nodes[0].path == "/dev/nvidia0"


@pytest.mark.parametrize(("device_class", "profile"), [("gpu.nvidia.com", ""), ("mig.nvidia.com", "3g.40gb")])
async def test_claims_share_a_partition_that_is_made_for_them(gpu_machine, device_class, profile):
    machine = gpu_machine("p5.48xlarge", 1)
    selectors = [f"device.attributes['{GPU}'].profile == '{profile}'"] if profile else []
    names = [f"p{number}" for number in range(5)]
    async with (
        LocalCluster(scheduler=Options(), objects=[node(NODE), *device_classes([GPU])]) as cluster,
        KubeletDouble(cluster.client, NODE, gates=ALL_GATES) as kubelet,
        kubelet.running(load("gpu", machine.settings(ConsumableShares="2", DynamicMIG=True))),
    ):
        await kubelet.registered(GPU)
        # Two shares of one GPU, or of each of its two partitions.
        fitting = 4 if profile else 2
        for name in names[: fitting + 1]:
            await cluster.create(claim(name, request(deviceClassName=device_class, selectors=selectors)))
            await cluster.create(pod(name, claims=[name]))

        async def bound():
            pods = [await cluster.get("Pod", name) for name in names[: fitting + 1]]
            placed = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
            return len(placed) == fitting and placed

        placed = await kubelet.eventually(bound, f"{fitting} pods are bound")
        for name in placed:
            await kubelet.try_pod(name)
        made = machine.instances()
        assert [number for number, _ in made] == [9] * (fitting // 2) if profile else made == []
        # The partition stays until the last of its claims is unprepared.
        await kubelet.end_pod(placed[0])
        assert machine.instances() == made
        for name in placed[1:]:
            await kubelet.end_pod(name)
        assert machine.instances() == []
