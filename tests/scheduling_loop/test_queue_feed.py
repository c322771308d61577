"""Queues from their objects to the pods that they let in."""

from types import SimpleNamespace

from dray.client.cache import Change
from dray.client.foreign_kinds import KUEUE, definitions
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.queue_feed import QueueFeed
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal


def cluster(*more):
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu"), objects.claim_template("one")]
    return LocalCluster(scheduler=Options(), controllers=["resourceclaim", "job"], objects=[*there, *more])


def job(name, number):
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}}
    metadata = {"name": name, "labels": {QUEUE: "team"}}
    spec = {"parallelism": number, "completions": number, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def make(local, document):
    resource = KUEUE[document["kind"]]
    body = {"apiVersion": resource.api_version, **document}
    await local.client.create(resource, body, namespace=document["metadata"].get("namespace", ""))


async def placed(local):
    return [each for each in await local.list("Pod") if each["spec"].get("nodeName")]


async def test_a_job_gets_what_its_queue_may_have():
    async with cluster(*definitions()) as local:
        await make(local, flavor())
        policy = {"fairSharing": {"weight": "2"}}
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)}), **policy))
        await make(local, local_queue("team", "team"))
        await local.create(job("training", 3))

        async def told():
            events = await local.list("Event")
            return {each["involvedObject"]["kind"]: each["message"] for each in events if each["type"] == "Warning"}

        async def both():
            found = await told()
            return found if {"Pod", "ClusterQueue"} <= found.keys() else None

        messages = await local.eventually(both)
        assert "ClusterQueue team" in messages["Pod"]
        assert messages["ClusterQueue"] == "nobody acts on spec.fairSharing here"
        assert len(await placed(local)) == 2
        quota = {
            "spec": {"resourceGroups": cluster_queue("team", ("any", {GPU: nominal(3)}))["spec"]["resourceGroups"]}
        }
        await local.client.patch(KUEUE["ClusterQueue"], "team", quota)

        async def all_placed():
            return len(await placed(local)) == 3

        await local.eventually(all_placed)


async def test_queues_that_somebody_else_serves_are_left_to_him():
    foreign = [{**each, "metadata": {**each["metadata"], "annotations": _approved(each)}} for each in definitions()]
    async with cluster(*foreign) as local:
        await local.create(job("training", 2))

        async def all_placed():
            return len(await placed(local)) == 2

        await local.eventually(all_placed)


def test_what_was_told_of_an_object_is_remembered_once_and_as_long_as_it_exists():
    warned = []
    events = SimpleNamespace(warning=lambda *given: warned.append(given[2]))
    scheduler = SimpleNamespace(put=lambda *_: None, remove=lambda *_: None)
    feed = QueueFeed(None, None, events, scheduler, lambda: 0.0, lambda: None, None)
    take = feed._taking("LocalQueue")
    queue = local_queue("team", "team")
    queue["spec"]["fairSharing"] = {"weight": "2"}
    for generation in (1, 1, 2, 3):
        queue = {**queue, "metadata": {**queue["metadata"], "uid": "1", "generation": generation}}
        take(Change("MODIFIED", ("default", "team"), queue, None))
    assert warned == ["nobody acts on spec.fairSharing here"] * 3
    assert len(feed._told) == 1
    take(Change("DELETED", ("default", "team"), queue, None))
    assert not feed._told


def _approved(definition):
    annotations = definition["metadata"]["annotations"]
    return {name: value for name, value in annotations.items() if name != "dray.dev/served"}
