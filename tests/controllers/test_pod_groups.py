"""PodGroups stay until their pods have ended."""

from dray.testing import objects
from dray.testing.cluster import LocalCluster

GROUP = objects.pod_group("g")


def pod(name, group="g"):
    return objects.pod(name, schedulingGroup={"podGroupName": group})


async def gone(cluster):
    async def is_gone():
        return await cluster.get("PodGroup", "g") is None

    await cluster.eventually(is_gone)


async def test_a_group_without_pods_goes_at_once():
    async with LocalCluster(controllers=["podgroup-protection"]) as cluster:
        await cluster.apply(GROUP, pod("p", "another"))
        await cluster.delete("PodGroup", "g")
        await gone(cluster)


async def test_one_with_pods_goes_with_the_last_of_them():
    async with LocalCluster(controllers=["podgroup-protection"]) as cluster:
        await cluster.apply(GROUP, pod("p"), pod("q"))
        await cluster.delete("PodGroup", "g")
        await cluster.delete("Pod", "p")
        assert (await cluster.get("PodGroup", "g"))["metadata"]["deletionTimestamp"]
        await cluster.patch("Pod", "q", {"status": {"phase": "Succeeded"}}, subresource="status")
        await gone(cluster)


async def test_one_that_was_deleted_before_the_start_goes_too():
    async with LocalCluster(objects=[GROUP, pod("p")]) as cluster:
        await cluster.delete("PodGroup", "g")
        async with LocalCluster(controllers=["podgroup-protection"], store=cluster.server.context.store) as later:
            await later.delete("Pod", "p")
            await gone(later)


async def test_one_that_nobody_deletes_stays():
    async with LocalCluster(controllers=["podgroup-protection"]) as cluster:
        await cluster.apply(GROUP, pod("p"))
        await cluster.delete("Pod", "p")
        found = await cluster.get("PodGroup", "g")
        assert found["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
