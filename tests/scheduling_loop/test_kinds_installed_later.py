"""Kinds that are installed while the scheduler runs: pods that name their objects are not placed without them."""

import asyncio

from dray.client.foreign_kinds import COMPUTE_CLASS, COSCHEDULING, KUEUE
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling.test_vectors_compute_class import compute_class, node
from tests.scheduling_loop.test_optional_feed import LABEL, install
from tests.scheduling_loop.test_queue_feed import make, placed


def cluster(*more):
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu"), objects.claim_template("one")]
    return LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=[*there, *more])


async def served(local, kind):
    """Returns once the definition of the kind has taken effect."""

    async def answers():
        try:
            return await local.client.list(kind)
        except Exception:
            return None

    await local.eventually(answers)


async def test_a_gang_of_a_kind_that_was_just_installed_is_not_placed_in_part():
    async with cluster() as local:
        await install(local, COSCHEDULING)
        await served(local, COSCHEDULING)
        group = {"apiVersion": COSCHEDULING.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
        await local.client.create(COSCHEDULING, {**group, "spec": {"minMember": 5}}, namespace="default")
        for n in range(5):
            pod = gpus.pod(f"w{n}", templates=["one"])
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
            await local.create(pod)

        async def told():
            return [event["message"] for event in await local.list("Event") if event["reason"] == "FailedScheduling"]

        (message, *_) = await local.eventually(told)
        assert "5 pods have to be placed together, but only 4 fit" in message
        assert await placed(local) == []


async def test_the_quota_of_a_queue_of_a_kind_that_was_just_installed_is_enforced():
    async with cluster() as local:
        await install(local, *KUEUE.values())
        for resource in KUEUE.values():
            await served(local, resource)
        for document in (flavor(), cluster_queue("team", ("any", {GPU: nominal(1)})), local_queue("team", "team")):
            await make(local, document)
        for n in range(3):
            pod = gpus.pod(f"w{n}", templates=["one"])
            pod["metadata"]["labels"] = {QUEUE: "team"}
            await local.create(pod)

        async def told():
            return len([event for event in await local.list("Event") if "ClusterQueue team" in event["message"]]) == 2

        await local.eventually(told)
        assert len(await placed(local)) == 1


async def test_a_class_of_nodes_of_a_kind_that_was_just_installed_is_acted_upon():
    there = [node("g2", machine_family="g2"), node("a3", machine_family="a3")]
    async with LocalCluster(scheduler=Options(), objects=there) as local:
        await install(local, COMPUTE_CLASS)
        await served(local, COMPUTE_CLASS)
        await local.client.create(COMPUTE_CLASS, compute_class({"machineFamily": "a3"}))
        tolerating = [{"key": LABEL, "operator": "Exists"}]
        pods = [
            objects.pod(
                f"p{n}", nodeSelector={LABEL: "train"}, tolerations=tolerating, containers=[objects.container()]
            )
            for n in range(6)
        ]
        await asyncio.gather(*(local.create(pod) for pod in pods))

        async def all_placed():
            found = [pod["spec"].get("nodeName") for pod in await local.list("Pod")]
            return found if all(found) else None

        assert set(await local.eventually(all_placed)) == {"a3"}


async def test_pods_that_name_a_kind_that_nobody_installs_are_placed():
    async with cluster() as local:
        for n in range(3):
            pod = gpus.pod(f"w{n}", templates=["one"])
            pod["metadata"]["labels"] = {QUEUE: "team", "scheduling.x-k8s.io/pod-group": "g"}
            await local.create(pod)

        async def all_placed():
            return len(await placed(local)) == 3

        await local.eventually(all_placed)
