"""Nodes that only manifests speak for."""

from dray.client.interface import WriteOptions
from dray.controllers.bare_nodes import is_bare, set_node_status, status
from dray.scheduling.model.node import DEFAULT_CAPACITY
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.controllers.jobs import Clock, job, nudge, running
from tests.controllers.jobs import status as job_status

OPTIONS = WriteOptions("test", force=True)


def node(name="a", **members):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **members}


def pod(name="p", node_name="a"):
    return objects.pod(name, nodeName=node_name)


def test_what_a_manifest_leaves_out():
    assert status(node())["allocatable"] == status(node())["capacity"] == DEFAULT_CAPACITY
    assert is_bare({"status": status(node())})
    assert not is_bare(node(status={"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}))
    given = status(node(status={"allocatable": {"cpu": "2"}, "images": []}))
    assert given["capacity"] == {"cpu": "2"}
    assert given["images"] == []


def test_what_a_manifest_says_stays_but_for_heartbeats():
    pressed = {"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    down = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }
    given = status(node(status={"conditions": [pressed, down]}))["conditions"]
    assert given == [
        {"type": "MemoryPressure", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "SaysManifest"},
    ]


async def test_pods_end_on_such_nodes_and_on_no_others():
    async with LocalCluster(controllers=["bare-node"]) as cluster:
        for name in ("a", "b"):
            await cluster.create(node(name))
        stored = await set_node_status(cluster.client, kind_of("Node"), node("a"), OPTIONS)
        assert not stored["spec"].get("taints")
        await cluster.create(pod("here", "a"))
        await cluster.create(pod("there", "b"))
        for name in ("here", "there"):
            await cluster.delete("Pod", name, grace=None)

        async def gone():
            return await cluster.get("Pod", "here") is None

        await cluster.eventually(gone)
        assert (await cluster.get("Pod", "there"))["metadata"]["deletionTimestamp"]


async def test_one_that_was_to_end_before_the_start_ends_too():
    async with LocalCluster(objects=[node(), pod()]) as cluster:
        await cluster.delete("Pod", "p", grace=None)
        async with LocalCluster(controllers=["bare-node"], store=cluster.server.context.store) as later:

            async def gone():
                return await later.get("Pod", "p") is None

            await later.eventually(gone)


async def test_a_job_that_waits_for_the_end_of_a_pod_learns_of_it():
    wished = job(podReplacementPolicy="Failed", backoffLimit=1)
    wished["spec"]["template"]["spec"]["nodeName"] = "a"
    async with LocalCluster(controllers=["bare-node", "job"], objects=[node()], time=Clock()) as cluster:
        await cluster.create(wished)
        [first] = await running(cluster, 1)
        await cluster.delete("Pod", first["metadata"]["name"], grace=None)
        await job_status(cluster, failed=1, terminating=0)
        cluster.time.advance(11)
        await nudge(cluster)
        await running(cluster, 1)
        assert await cluster.get("Pod", first["metadata"]["name"]) is None
