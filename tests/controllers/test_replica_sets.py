"""ReplicaSets and ReplicationControllers as their users see them."""

from datetime import timedelta

import pytest

from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.controllers.jobs import Clock
from tests.controllers.workloads import make_ready, pods, reasons, step

BUILDERS = {"ReplicaSet": objects.replica_set, "ReplicationController": objects.replication_controller}


def cluster(*controllers, **options):
    return LocalCluster(controllers=["replicaset", "replicationcontroller", *controllers], **options)


async def counted(local, kind, **numbers):
    async def holds():
        found = await local.get(kind, "web")
        status = found["status"]
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if is_seen and all(status.get(name, 0) == value for name, value in numbers.items()) else None

    return await local.eventually(holds)


@pytest.mark.parametrize("kind", BUILDERS)
async def test_pods_are_made_replaced_and_removed(kind):
    async with cluster() as local:
        made = await local.create(BUILDERS[kind]("web", replicas=3))
        await counted(local, kind, replicas=3, fullyLabeledReplicas=3, readyReplicas=0)
        first, *_ = await pods(local)
        assert first["metadata"]["name"].startswith("web-")
        assert first["metadata"]["labels"] == {"app": "web"}
        (owner,) = first["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (kind, made["metadata"]["uid"], True)
        await step(local)
        await counted(local, kind, replicas=3, readyReplicas=3, availableReplicas=3)
        await local.delete("Pod", first["metadata"]["name"])
        await counted(local, kind, replicas=3, readyReplicas=2)
        # Of pods that are ready and one that is not, the latter goes.
        before = {pod["metadata"]["uid"] for pod in await pods(local) if pod["spec"].get("nodeName")}
        await local.patch(kind, "web", {"spec": {"replicas": 2}}, subresource="scale")
        await counted(local, kind, replicas=2, readyReplicas=2)
        assert {pod["metadata"]["uid"] for pod in await pods(local)} == before
        told = [reason for reason, _ in await reasons(local, kind)]
        assert told.count("SuccessfulCreate") == 4
        assert told.count("SuccessfulDelete") == 1


async def test_a_pod_that_is_selected_is_adopted_and_one_that_no_longer_is_is_released():
    async with cluster() as local:
        mine = await local.create(objects.pod("mine", labels={"app": "web"}))
        made = await local.create(objects.replica_set("web", replicas=2))
        await counted(local, "ReplicaSet", replicas=2)
        adopted = await local.get("Pod", "mine")
        assert adopted["metadata"]["uid"] == mine["metadata"]["uid"]
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        await local.patch("Pod", "mine", {"metadata": {"labels": {"app": "debug"}}})

        async def released():
            return "ownerReferences" not in (await local.get("Pod", "mine"))["metadata"]

        await local.eventually(released)
        await counted(local, "ReplicaSet", replicas=2)
        assert len(await local.list("Pod")) == 3


async def test_a_pod_is_available_only_after_it_was_ready_for_long_enough():
    clock = Clock()
    async with cluster(time=clock) as local:
        await local.create(objects.replica_set("web", replicas=1, minReadySeconds=30))
        await counted(local, "ReplicaSet", replicas=1)
        (pod,) = await pods(local)
        await make_ready(local, pod, since=clock.now())
        await counted(local, "ReplicaSet", readyReplicas=1, availableReplicas=0)
        clock.advance(31)
        # Anything that makes it look; with a real clock it would have looked by itself.
        await local.patch("Pod", pod["metadata"]["name"], {"metadata": {"annotations": {"a": "b"}}})
        await counted(local, "ReplicaSet", readyReplicas=1, availableReplicas=1)
        await make_ready(local, pod, since=clock.now() - timedelta(seconds=5))
        await counted(local, "ReplicaSet", readyReplicas=1, availableReplicas=0)


@pytest.mark.parametrize("kind", BUILDERS)
async def test_what_keeps_pods_from_being_made_is_told_and_goes_away(kind):
    async with cluster() as local:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "1"}},
        }
        await local.create(quota)
        await local.create(BUILDERS[kind]("web", replicas=3))
        found = await counted(local, kind, replicas=1)

        async def failing():
            status = (await local.get(kind, "web"))["status"]
            return next(iter(status.get("conditions") or ()), None)

        told = await local.eventually(failing)
        assert (told["type"], told["status"], told["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
        assert "exceeded quota" in told["message"]
        assert found["status"]["replicas"] == 1
        assert "FailedCreate" in [reason for reason, _ in await reasons(local, kind)]
        await local.delete("ResourceQuota", "q")
        # Anything that makes it look before it tries again by itself.
        await local.patch(kind, "web", {"metadata": {"annotations": {"a": "b"}}})
        await counted(local, kind, replicas=3)

        async def well():
            return not await failing()

        await local.eventually(well)


async def test_pods_go_with_their_replica_set_unless_they_are_orphaned():
    async with cluster("garbage-collector") as local:
        for policy, left in (("Orphan", 2), ("Foreground", 0)):
            await local.create(objects.replica_set("web", replicas=2))
            await counted(local, "ReplicaSet", replicas=2)
            path = "/apis/apps/v1/namespaces/default/replicasets/web"
            await local.client.request("DELETE", path, query={"propagationPolicy": policy})

            async def gone(left=left):
                return await local.get("ReplicaSet", "web") is None and len(await pods(local)) == left

            await local.eventually(gone)


async def test_the_status_is_written_once():
    async with cluster() as local:
        await local.create(objects.replica_set("web", replicas=2))
        await counted(local, "ReplicaSet", replicas=2)
        await step(local)
        found = await counted(local, "ReplicaSet", availableReplicas=2)
        await local.patch("ReplicaSet", "web", {"metadata": {"annotations": {"a": "b"}}})
        await local.patch("ReplicaSet", "web", {"metadata": {"annotations": {"a": "c"}}})
        await counted(local, "ReplicaSet", availableReplicas=2)
        assert (await local.get("ReplicaSet", "web"))["status"] == found["status"]
