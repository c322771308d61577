"""Pods that nobody else would take away."""

import asyncio

from dray.client.interface import DeleteOptions
from dray.controllers.pod_garbage import PodGarbageCollector, is_out_of_service
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of

SOON = 0.05


def pod(name, *, node=None, phase=None, finalizers=None, **status):
    return objects.pod(name, nodeName=node, finalizers=finalizers, status={"phase": phase, **status} if phase else None)


def node(name, ready="True", taints=None):
    return objects.node(name, taints=taints, status={"conditions": [{"type": "Ready", "status": ready}]})


OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


async def collect(cluster, **options):
    options = {"quarantine": SOON, "period": SOON, **options}
    controller = PodGarbageCollector(cluster.environment, **options)
    await cluster.environment.informers.synced()
    cluster.start(controller.run())
    return controller


async def gone(cluster, name):
    async def is_gone():
        return await cluster.get("Pod", name) is None

    await cluster.eventually(is_gone)


async def names(cluster):
    return {each["metadata"]["name"] for each in await cluster.list("Pod")}


def count(cluster, reason):
    labels = {"namespace": "default", "reason": reason}
    return cluster.environment.metrics.get_sample_value("pod_gc_collector_force_delete_pods_total", labels)


async def test_pods_of_a_deleted_node_fail_and_go():
    async with LocalCluster() as cluster:
        await cluster.apply(node("a"), node("b"), pod("on-a", node="a", finalizers=["example.com/see"]))
        await cluster.apply(pod("on-b", node="b"), pod("nowhere"))
        await collect(cluster)
        await cluster.delete("Node", "a")

        async def ended():
            return (await cluster.get("Pod", "on-a"))["metadata"].get("deletionTimestamp")

        await cluster.eventually(ended)
        lost = await cluster.get("Pod", "on-a")
        assert lost["status"]["phase"] == "Failed"
        (condition,) = [each for each in lost["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "DeletionByPodGC")
        assert condition["message"] == "PodGC: node no longer exists"
        assert lost["metadata"]["deletionGracePeriodSeconds"] == 0
        assert await names(cluster) == {"on-a", "on-b", "nowhere"}
        assert count(cluster, "orphaned") == 1


async def test_pods_of_a_node_that_was_gone_before_it_started_go():
    async with LocalCluster() as cluster:
        await cluster.apply(node("b"), pod("lost", node="a"), pod("done", node="a", phase="Succeeded"))
        await cluster.apply(pod("kept", node="b"))
        await collect(cluster)
        await gone(cluster, "lost")
        await gone(cluster, "done")
        assert await names(cluster) == {"kept"}


async def test_a_node_that_comes_back_in_time_keeps_its_pods():
    async with LocalCluster() as cluster:
        await cluster.apply(node("a"), pod("p", node="a"))
        await collect(cluster, quarantine=0.15)
        await cluster.delete("Node", "a")
        await cluster.create(node("a"))
        await asyncio.sleep(0.2)
        assert (await cluster.get("Pod", "p"))["status"]["phase"] == "Pending"


async def test_a_node_that_only_the_cache_misses_keeps_its_pods():
    async with LocalCluster() as cluster:
        await cluster.apply(node("a"), pod("p", node="a"))
        controller = await collect(cluster)
        controller._nodes.cache.remove(("", "a"))
        assert await controller.reconcile(("node", "", "a")) == SOON
        assert await cluster.get("Pod", "p") is not None


async def test_the_oldest_finished_pods_beyond_the_threshold_go():
    async with LocalCluster() as cluster:
        await cluster.create(node("a"))
        for number in range(3):
            await cluster.create(pod(f"done{number}", node="a", phase="Succeeded"))
        await cluster.create(pod("evicted", node="a", phase="Failed", reason="Evicted"))
        await cluster.create(pod("running", node="a", phase="Running"))
        await collect(cluster, threshold=2)
        await gone(cluster, "evicted")
        await gone(cluster, "done0")
        await asyncio.sleep(2 * SOON)
        assert await names(cluster) == {"done1", "done2", "running"}
        await cluster.create(pod("more", node="a", phase="Failed"))
        await gone(cluster, "done1")
        assert count(cluster, "terminated") == 3


async def test_a_threshold_of_nothing_keeps_all():
    async with LocalCluster() as cluster:
        await cluster.create(node("a"))
        await cluster.create(pod("done", node="a", phase="Succeeded"))
        controller = await collect(cluster, threshold=0)
        assert len(controller._workers.queue) == 0
        await asyncio.sleep(2 * SOON)
        assert await names(cluster) == {"done"}


async def test_a_pod_that_ends_without_a_node_has_failed():
    async with LocalCluster() as cluster:
        await cluster.create(pod("p", finalizers=["batch.kubernetes.io/job-tracking"]))
        await collect(cluster)
        await cluster.delete("Pod", "p", grace=None)

        async def failed():
            return (await cluster.get("Pod", "p"))["status"]["phase"] == "Failed"

        await cluster.eventually(failed)
        await cluster.patch("Pod", "p", {"metadata": {"finalizers": None}})
        await gone(cluster, "p")


async def test_pods_cannot_end_on_a_node_that_is_out_of_service_and_are_helped():
    async with LocalCluster() as cluster:
        await cluster.apply(node("a", ready="False", taints=[OUT_OF_SERVICE]), node("b", ready="False"))
        await cluster.apply(pod("ending", node="a"), pod("staying", node="a"), pod("elsewhere", node="b"))
        await collect(cluster)
        for name in ("ending", "elsewhere"):
            await cluster.client.delete(
                kind_of("Pod"), name, namespace="default", options=DeleteOptions(grace_period=30)
            )
        await gone(cluster, "ending")
        assert await names(cluster) == {"staying", "elsewhere"}
        # And once somebody says so of the other node too:
        await cluster.patch("Node", "b", {"spec": {"taints": [OUT_OF_SERVICE]}})
        await gone(cluster, "elsewhere")
        assert count(cluster, "out-of-service") == 2


def test_out_of_service():
    assert is_out_of_service(node("a", ready="Unknown", taints=[OUT_OF_SERVICE]))
    assert not is_out_of_service(node("a", ready="True", taints=[OUT_OF_SERVICE]))
    assert not is_out_of_service(node("a", ready="False"))
    assert not is_out_of_service({"metadata": {"name": "a"}})
