"""The pod resources service, asked as a monitoring agent asks it."""

import grpc
import pytest

from dray._proto import kubelet_pb2 as messages
from dray._proto.services import POD_RESOURCES_V1, POD_RESOURCES_V1ALPHA1
from dray.testing.objects import container

from .clusters import bound_pod, kubelet_on_cluster
from .scripted_driver import DRIVER, scripted_driver


async def test_the_devices_of_each_container_are_listed():
    async with (
        kubelet_on_cluster() as (cluster, kubelet),
        scripted_driver(kubelet.root) as driver,
        grpc.aio.insecure_channel(f"unix:{kubelet.root}/pod-resources/kubelet.sock") as channel,
    ):
        stub = POD_RESOURCES_V1.stub(channel)
        assert not (await stub.List(messages.ListPodResourcesRequest())).pod_resources
        driver.devices["c"] = [
            {"pool_name": "worker", "device_name": "gpu-0", "cdi_device_ids": ["x.com/g=0"], "share_id": "s"},
            {"pool_name": "worker", "device_name": "gpu-1", "cdi_device_ids": ["x.com/g=1"]},
        ]
        sidecar = container("sidecar", restartPolicy="Always", claims=["claim-0"])
        await kubelet.registered(DRIVER)
        await bound_pod(cluster, "p", "c", initContainers=[container("setup", claims=["claim-0"]), sidecar])
        await kubelet.try_pod("p")
        [pod] = (await stub.List(messages.ListPodResourcesRequest())).pod_resources
        assert (pod.namespace, pod.name) == ("default", "p")
        assert [each.name for each in pod.containers] == ["sidecar", "main"]
        for each in pod.containers:
            [resource] = each.dynamic_resources
            assert (resource.claim_namespace, resource.claim_name) == ("default", "c")
            first, second = resource.claim_resources
            assert (first.driver_name, first.pool_name, first.device_name) == (DRIVER, "worker", "gpu-0")
            assert ([first.cdi_devices[0].name], first.share_id) == (["x.com/g=0"], "s")
            # A kubelet repeats the ids of the first device here; each device has its own.
            assert [cdi.name for cdi in second.cdi_devices] == ["x.com/g=1"]
            assert not second.HasField("share_id")
        got = await stub.Get(messages.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
        assert got.pod_resources == pod
        old = POD_RESOURCES_V1ALPHA1.stub(channel)
        [listed] = (await old.List(messages.ListPodResourcesRequest())).pod_resources
        # Nothing that this version does not have.
        bare = [messages.ContainerResources(name=each.name) for each in pod.containers]
        assert listed == messages.PodResources(name="p", namespace="default", containers=bare)
        with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
            await old.Get(messages.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
        assert (
            await stub.GetAllocatableResources(messages.AllocatableResourcesRequest())
            == messages.AllocatableResourcesResponse()
        )
        with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace default not found"):
            await stub.Get(messages.GetPodResourcesRequest(pod_name="q", pod_namespace="default"))


async def test_too_many_questions_are_refused_and_later_ones_answered():
    async with (
        kubelet_on_cluster() as (_, kubelet),
        grpc.aio.insecure_channel(f"unix:{kubelet.root}/pod-resources/kubelet.sock") as channel,
    ):
        stub = POD_RESOURCES_V1.stub(channel)
        calls = [stub.List(messages.ListPodResourcesRequest()) for _ in range(60)]
        codes = [await call.code() for call in calls]
        assert codes.count(grpc.StatusCode.OK) >= 10
        refused = next(call for call, code in zip(calls, codes, strict=True) if code is not grpc.StatusCode.OK)
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await refused.details() == "rejected by rate limit"

        async def answered():
            return await stub.List(messages.ListPodResourcesRequest()).code() is grpc.StatusCode.OK

        await kubelet.eventually(answered)
