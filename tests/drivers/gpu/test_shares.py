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
            assert started.env() == {"NVIDIA_VISIBLE_DEVICES": "void"}
            assert started.edits["main"].device_nodes[0].path == "/dev/nvidia0"
