"""Queues whose kinds are installed as definitions: dray enforces their quota unless Kueue or KAI itself is at work."""

import logging

import pytest

from dray.client.errors import ApiError
from dray.client.foreign_kinds import KAI_QUEUE, KUEUE, definitions
from dray.client.interface import GroupVersionResource
from dray.scheduling.core.options import Options, QueueMode
from dray.scheduling_loop import optional_feed
from dray.scheduling_loop.kind_owners import WEBHOOKS, at_work
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_queues import GPU, cluster_queue, flavor, local_queue, nominal
from tests.scheduling.test_share_tree import queue
from tests.scheduling_loop import test_kai_feed
from tests.scheduling_loop.test_queue_feed import job, make, placed

DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def webhooks(name, group):
    """Returns a webhook configuration as Kueue and KAI install it. This one rejects nothing."""
    hook = {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "timeoutSeconds": 1,
        "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": ["never"], "operations": ["CREATE"]}],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": name}, "webhooks": [hook]}


def installed(**changes):
    """The definitions as somebody else would apply them."""
    found = []
    for definition in definitions():
        annotations = {"api-approved.kubernetes.io": "unapproved"}
        found.append({**definition, "metadata": {**definition["metadata"], "annotations": annotations}, **changes})
    return found


def cluster(*more, mode=QueueMode.AUTO):
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu"), objects.claim_template("one")]
    options = Options(queues=mode)
    return LocalCluster(scheduler=options, controllers=["resourceclaim", "job"], objects=[*there, *more])


async def queues(local):
    await make(local, flavor())
    await make(local, cluster_queue("team", ("any", {GPU: nominal(2)})))
    await make(local, local_queue("team", "team"))


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(optional_feed, "_LOOK_AGAIN", 0.05)
    monkeypatch.setattr(optional_feed, "_PAUSE", 0.05)


async def all_placed(local, number):
    async def enough():
        return len(await placed(local)) == number

    await local.eventually(enough)


async def refused(local):
    async def told():
        return [event for event in await local.list("Event") if event["reason"] == "FailedScheduling"]

    return (await local.eventually(told))[0]["message"]


async def told(local, kind):
    async def events():
        found = [event for event in await local.list("Event") if event["reason"] == "NotActedUpon"]
        return [event["message"] for event in found if event["involvedObject"]["kind"] == kind]

    return await local.eventually(events)


async def test_with_the_definitions_of_kueue_and_no_kueue_the_quota_is_enforced():
    async with cluster(*installed()) as local:
        await queues(local)
        await local.create(job("training", 3))
        assert "ClusterQueue team" in await refused(local)
        await all_placed(local, 2)

        async def counted():
            found = await local.client.get(KUEUE["ClusterQueue"], "team")
            return (found.get("status") or {}).get("admittedWorkloads") == 2

        await local.eventually(counted)


async def test_queues_are_left_to_a_kueue_that_is_at_work_and_say_so(caplog):
    caplog.set_level(logging.WARNING)
    async with cluster(*installed(), webhooks("kueue-webhooks", "kueue.x-k8s.io")) as local:
        await queues(local)
        await local.create(job("training", 3))
        await all_placed(local, 3)
        (message,) = await told(local, "ClusterQueue")
        assert message == (
            "quota is left to Kueue, which is installed (ValidatingWebhookConfiguration kueue-webhooks); to "
            "enforce it with dray, use --queues on"
        )
        assert local.plane.obstacles() == []
    said = [record.getMessage() for record in caplog.records if record.name == "dray.scheduler"]
    assert [line for line in said if "quota" in line] == [f"clusterqueues.kueue.x-k8s.io: {message}"]


async def test_quota_is_enforced_beside_kueue_if_somebody_says_so():
    there = (*installed(), webhooks("kueue-webhooks", "kueue.x-k8s.io"))
    async with cluster(*there, mode=QueueMode.ON) as local:
        await queues(local)
        await local.create(job("training", 3))
        assert "ClusterQueue team" in await refused(local)
        await all_placed(local, 2)


async def test_quota_is_not_enforced_if_somebody_says_so_and_the_queue_tells():
    async with cluster(*definitions(), mode=QueueMode.OFF) as local:
        await queues(local)
        await local.create(job("training", 3))
        await all_placed(local, 3)
        assert await told(local, "ClusterQueue") == ["quota is not enforced: dray scheduler runs with --queues off"]


async def test_queues_are_taken_over_when_kueue_is_removed(often):
    async with cluster(*installed(), webhooks("kueue-webhooks", "kueue.x-k8s.io")) as local:
        await queues(local)
        await told(local, "ClusterQueue")
        await local.client.delete(WEBHOOKS, "kueue-webhooks")

        async def active():
            return (await local.client.get(KUEUE["ClusterQueue"], "team")).get("status")

        await local.eventually(active)
        await local.create(job("training", 3))
        assert "ClusterQueue team" in await refused(local)


async def test_a_kueue_that_comes_later_is_noticed(often):
    async with cluster(*installed()) as local:
        await queues(local)
        await local.client.create(WEBHOOKS, webhooks("kueue-webhooks", "kueue.x-k8s.io"))
        (message,) = await told(local, "ClusterQueue")
        assert message.startswith(
            "both enforce the quota until dray scheduler is started again: quota is left to Kueue"
        )


async def test_queues_of_kai_are_enforced_or_left_in_the_same_way():
    async with cluster(*installed()) as local:
        await test_kai_feed.make(local, queue("dept"), queue("a", "dept", limit=0))
        await test_kai_feed.submit(local, "p", "a")
        assert "Queue a" in await refused(local)
    async with cluster(*installed(), webhooks("queuecontroller", "scheduling.run.ai")) as local:
        await test_kai_feed.make(local, queue("dept"), queue("a", "dept", limit=0))
        await test_kai_feed.submit(local, "p", "a")
        await all_placed(local, 1)
        assert "quota is left to KAI" in (await told(local, "Queue"))[0]
        assert not (await local.client.get(KAI_QUEUE, "a")).get("status")


async def test_queues_of_a_version_that_dray_does_not_read_say_so():
    older = []
    for definition in installed():
        if definition["metadata"]["name"] == "clusterqueues.kueue.x-k8s.io":
            (version,) = definition["spec"]["versions"]
            older.append({**definition, "spec": {**definition["spec"], "versions": [{**version, "name": "v1beta1"}]}})
    async with cluster(*older) as local:
        kind = GroupVersionResource("kueue.x-k8s.io", "v1beta1", "clusterqueues")
        body = {**cluster_queue("team", ("any", {GPU: nominal(2)})), "apiVersion": "kueue.x-k8s.io/v1beta1"}
        await local.client.create(kind, body)
        assert await told(local, "ClusterQueue") == [
            "quota is not enforced: the server has version v1beta1, dray reads v1beta2"
        ]


async def test_a_kind_that_comes_later_and_may_not_be_read_is_named_and_its_pods_wait(often, monkeypatch):
    async with cluster() as local:
        client = local.plane.loop._kinds._client
        listing = client.list

        async def refusing(resource, **options):
            if resource.plural == "localqueues":
                raise ApiError(403, "Forbidden", "localqueues is forbidden")
            return await listing(resource, **options)

        monkeypatch.setattr(client, "list", refusing)
        for definition in installed():
            await local.create(definition)

        async def named():
            return "cannot list localqueues.kueue.x-k8s.io: localqueues is forbidden" in local.plane.obstacles()

        await local.eventually(named)
        await local.create(job("training", 1))
        await local.create(objects.pod("free", containers=[objects.container()]))
        assert "LocalQueue default/team not found" in await refused(local)
        await all_placed(local, 1)


def test_a_system_is_at_work_only_if_a_webhook_names_its_api_group():
    assert at_work([webhooks("policies", "*"), webhooks("jobs", "batch"), {}], "kueue.x-k8s.io") == ""
    assert "Kueue" in at_work([webhooks("k", "kueue.x-k8s.io")], "kueue.x-k8s.io")
    assert at_work([{"webhooks": [{"rules": [{"apiGroups": "kueue.x-k8s.io"}, 3]}, None]}], "kueue.x-k8s.io") == ""
