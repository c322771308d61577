"""Kinds that a server may not have: classes of nodes, and any that are installed while the scheduler runs."""

from types import SimpleNamespace

import pytest

from dray.client.cache import Change
from dray.client.errors import ApiError
from dray.client.foreign_kinds import COMPUTE_CLASS, KAI_GROUP, KAI_QUEUE, KUEUE, definitions
from dray.scheduling.scheduler import Options
from dray.scheduling_loop import optional_feed
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests.scheduling.test_queues import GPU, cluster_queue, nominal
from tests.scheduling.test_vectors_compute_class import compute_class, node

LABEL = "cloud.google.com/compute-class"


def cluster(*more):
    there = [node("g2", machine_family="g2"), node("a3", machine_family="a3")]
    return LocalCluster(scheduler=Options(), objects=[*there, *more])


def asking(name):
    return objects.pod(name, nodeSelector={LABEL: "train"}, containers=[objects.container()])


async def test_pods_go_where_their_class_says():
    async with cluster(*definitions()) as local:
        recycling = {"nodeRecycling": {"leadTimeSeconds": 3600}}
        rule = {"machineFamily": "a3", "podFamily": "general-purpose", "flexStart": recycling}
        await local.client.create(COMPUTE_CLASS, compute_class(rule))
        await local.create(asking("p"))

        async def placed():
            return (await local.get("Pod", "p"))["spec"].get("nodeName")

        assert await local.eventually(placed) == "a3"

        async def told():
            return [each["message"] for each in await local.list("Event") if each["reason"] == "NotActedUpon"]

        assert await local.eventually(told) == [
            "ignored by this scheduler: spec.priorities[].podFamily, spec.priorities[].flexStart.nodeRecycling"
        ]


async def test_without_the_kind_the_label_is_a_label():
    async with cluster() as local:
        tolerating = [{"key": LABEL, "operator": "Exists"}]
        await local.create({**asking("p"), "spec": {**asking("p")["spec"], "tolerations": tolerating}})

        async def placed():
            return (await local.get("Pod", "p"))["spec"].get("nodeName")

        assert await local.eventually(placed) in ("a3", "g2")


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(optional_feed, "_LOOK_AGAIN", 0.05)
    monkeypatch.setattr(optional_feed, "_PAUSE", 0.05)


async def install(local, *kinds):
    names = {each.qualified for each in kinds}
    for each in definitions():
        if each["metadata"]["name"] in names:
            await local.create(each)


async def test_a_class_of_a_kind_that_is_installed_later_is_acted_upon(often):
    async with cluster() as local:
        await local.create(asking("before"))
        await install(local, COMPUTE_CLASS)

        async def made():
            try:
                return await local.client.create(COMPUTE_CLASS, compute_class({"machineFamily": "a3"}))
            except ApiError:
                return None

        await local.eventually(made)

        async def placed():
            return (await local.get("Pod", "before"))["spec"].get("nodeName")

        assert await local.eventually(placed) == "a3"


async def test_queues_and_groups_that_are_installed_later_are_acted_upon(often):
    async with cluster() as local:
        await install(local, *KUEUE.values(), KAI_QUEUE, KAI_GROUP)
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingBackoff": 1}}
        made = (
            (KUEUE["ClusterQueue"], cluster_queue("team", ("any", {GPU: nominal(1)}))),
            (KAI_QUEUE, {"metadata": {"name": "lab"}, "spec": {}}),
            (KAI_GROUP, group),
        )
        for kind, document in made:
            body = {**document, "apiVersion": kind.api_version, "kind": kind.kind}
            await local.client.create(kind, body, namespace=document["metadata"].get("namespace", ""))

        async def followed():
            queue = await local.client.get(KUEUE["ClusterQueue"], "team")
            lab = await local.client.get(KAI_QUEUE, "lab")
            told = [each["involvedObject"]["name"] for each in await local.list("Event")]
            return queue.get("status") and lab.get("status") and "g" in told

        await local.eventually(followed)


def test_what_was_told_of_an_object_is_remembered_once_and_as_long_as_it_exists():
    warned = []
    events = SimpleNamespace(warning=lambda *given: warned.append(given[2]))
    scheduler = SimpleNamespace(put=lambda *_: None, remove=lambda *_: None, options=Options())
    feed = optional_feed.OptionalFeed(None, None, events, scheduler, lambda: 0.0, lambda: None, None)
    feed._own.add("ClusterQueue")
    informer = SimpleNamespace(version=KUEUE["ClusterQueue"])
    take = feed._taking("ClusterQueue", optional_feed.KINDS["ClusterQueue"], informer)
    queue = cluster_queue("team", ("any", {GPU: nominal(1)}), concurrentAdmissionPolicy={"migration": "None"})
    for generation in (1, 1, 2, 3):
        queue = {**queue, "metadata": {**queue["metadata"], "uid": "1", "generation": generation}}
        take(Change("MODIFIED", ("default", "team"), queue, None))
    assert warned == ["ignored by this scheduler: spec.concurrentAdmissionPolicy"] * 3
    assert len(feed.unheeded._told) == 1
    take(Change("DELETED", ("default", "team"), queue, None))
    assert not feed.unheeded._told
