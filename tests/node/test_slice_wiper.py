"""ResourceSlices of drivers that are gone are deleted: at the start, and a while after the loss of a driver."""

from dataclasses import replace

from dray.testing.kubelet.double import QUICK
from dray.testing.objects import resource_slice

from .clusters import NODE, kubelet_on_cluster
from .scripted_driver import DRIVER, scripted_driver


async def slices(cluster):
    return sorted(each["metadata"]["name"] for each in await cluster.list("ResourceSlice"))


async def test_a_kubelet_that_starts_wipes_the_slices_of_its_node_only():
    async with kubelet_on_cluster() as (cluster, kubelet):
        await cluster.create(resource_slice("mine", "gpu-0", nodeName=NODE))
        await cluster.create(resource_slice("other", "gpu-0", nodeName="elsewhere", driver="other.example.com"))
        await cluster.create(resource_slice("shared", "gpu-0"))
        await kubelet.restart()

        async def wiped():
            return await slices(cluster) == ["other", "shared"]

        await kubelet.eventually(wiped)


async def test_the_slices_of_a_driver_that_does_not_come_back_are_wiped():
    timing = replace(QUICK, wipe_delay=0.2)
    async with kubelet_on_cluster(timing=timing) as (cluster, kubelet):
        async with scripted_driver(kubelet.root):
            await kubelet.registered(DRIVER)
            await cluster.create(resource_slice("mine", "gpu-0", nodeName=NODE))
            await cluster.create(resource_slice("others", "gpu-0", nodeName=NODE, driver="other.example.com"))
        await kubelet.deregistered(DRIVER)

        async def wiped():
            return await slices(cluster) == ["others"]

        await kubelet.eventually(wiped)


async def test_a_driver_that_comes_back_in_time_keeps_its_slices():
    async with kubelet_on_cluster(timing=replace(QUICK, wipe_delay=60)) as (cluster, kubelet):
        async with scripted_driver(kubelet.root):
            await kubelet.registered(DRIVER)
            await cluster.create(resource_slice("mine", "gpu-0", nodeName=NODE))
        await kubelet.deregistered(DRIVER)
        assert list(kubelet.node._wiper._pending) == [DRIVER]
        async with scripted_driver(kubelet.root):
            await kubelet.registered(DRIVER)
            assert not kubelet.node._wiper._pending
        assert await slices(cluster) == ["mine"]
