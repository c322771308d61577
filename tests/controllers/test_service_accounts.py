"""The service account that every namespace has."""

from dray.testing.cluster import LocalCluster
from dray.testing.objects import namespace


def accounting():
    return LocalCluster(controllers=["serviceaccount", "namespace"])


async def test_a_new_namespace_gets_its_account():
    async with accounting() as cluster:
        await cluster.create(namespace("team"))
        await cluster.eventually(lambda: cluster.get("ServiceAccount", "default", namespace="team"))
        for name in ("default", "kube-system"):
            assert await cluster.get("ServiceAccount", "default", namespace=name) is not None


async def test_an_account_that_is_deleted_comes_back_and_others_do_not():
    async with accounting() as cluster:
        other = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other", "namespace": "default"}}
        await cluster.create(other)
        before = await cluster.eventually(lambda: cluster.get("ServiceAccount", "default"))
        await cluster.delete("ServiceAccount", "other")
        await cluster.delete("ServiceAccount", "default")
        after = await cluster.eventually(lambda: cluster.get("ServiceAccount", "default"))
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert await cluster.get("ServiceAccount", "other") is None


async def test_a_namespace_that_ends_gets_none():
    async with accounting() as cluster:
        await cluster.create(namespace("team"))
        await cluster.eventually(lambda: cluster.get("ServiceAccount", "default", namespace="team"))
        await cluster.delete("Namespace", "team")

        async def is_gone():
            return await cluster.get("Namespace", "team") is None

        await cluster.eventually(is_gone)
        assert await cluster.get("ServiceAccount", "default", namespace="team") is None
