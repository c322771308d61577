"""Queues of KAI from their objects to the pods that have their turn, and what is written about them."""

import json

import pytest

from dray.client.foreign_kinds import KAI_GROUP, KAI_QUEUE, definitions
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.usage_decay import UsageOptions
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.queue_systems import kai_feed, kai_groups
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_share_tree import queue
from tests.scheduling.test_vectors_kai import labelled


def cluster(*more, **options):
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu")]
    return LocalCluster(scheduler=Options(**options), controllers=["resourceclaim"], objects=[*there, *more])


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(kai_feed, "_STATUS_SECONDS", 0.05)
    monkeypatch.setattr(kai_feed, "_SAMPLE_SECONDS", 0.05)
    monkeypatch.setattr(kai_feed, "_STORE_SECONDS", 0.1)


async def make(local, *documents):
    for each in documents:
        each["metadata"].pop("creationTimestamp", None)
        await local.client.create(KAI_QUEUE, {"apiVersion": KAI_QUEUE.api_version, **each})


async def submit(local, name, to, **more):
    await local.create(objects.claim(name))
    await local.create(labelled(gpus.pod(name, claims=[name], **more), to))


async def placed(local):
    return sorted(each["metadata"]["name"] for each in await local.list("Pod") if each["spec"].get("nodeName"))


async def status(local, name):
    return (await local.client.get(KAI_QUEUE, name)).get("status") or {}


async def test_queues_have_their_turn_and_say_what_they_have():
    async with cluster(*definitions()) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept", quota=2), queue("b", "dept", quota=2))
        for n in range(4):
            await submit(local, f"b{n}", "b", requests={"cpu": "500m"})

        async def all_of_b():
            return await placed(local) == ["b0", "b1", "b2", "b3"]

        await local.eventually(all_of_b)
        for n in range(3):
            await submit(local, f"a{n}", "a")

        async def shared():
            found = await placed(local)
            return [name[0] for name in found] == ["a", "a", "b", "b"]

        await local.eventually(shared)

        async def said():
            found = await status(local, "dept")
            wanted = {"gpu": "4", "cpu": "1", "memory": "0"}, "5"
            return found if (found.get("allocated"), found.get("requested", {}).get("gpu")) == wanted else None

        found = await local.eventually(said)
        assert found["childQueues"] == ["a", "b"]
        assert (await status(local, "b"))["allocated"] == {"gpu": "2", "cpu": "1", "memory": "0"}


async def test_what_queues_had_is_found_after_a_restart():
    usage = UsageOptions(window=3600.0)
    async with cluster(*definitions(), queue_usage=usage) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept", quota=2))
        await submit(local, "p", "a")

        async def stored():
            found = [each for each in await local.list("ConfigMap") if each["metadata"]["name"] == "dray-queue-usage"]
            buckets = json.loads(found[0]["data"]["usage.json"])["buckets"] if found else []
            return buckets if any(each["used"].get("a") for each in buckets) else None

        buckets = await local.eventually(stored)
    document = objects.config_map("dray-queue-usage", {"usage.json": json.dumps({"buckets": buckets})})
    document["metadata"]["namespace"] = "kube-system"
    async with cluster(*definitions(), document, queue_usage=usage) as local:
        tree = local.plane.loop.scheduler.state.queues.system(KaiQueues).tree
        assert 0 < tree.usage["a"]["gpu"] <= 0.26


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        "[" * 100_000,
        json.dumps({"buckets": [{"start": 1.8e9, "end": 1e29, "used": {"a": {"gpu": 1e29}}, "capacity": {"gpu": 1}}]}),
        json.dumps(
            {"buckets": [{"start": 0, "end": 1e-300, "used": {"a": {"gpu": 9e29}}, "capacity": {"gpu": 1e-300}}]}
        ),
        '{"buckets": [{"start": NaN, "end": Infinity, "used": {"a": {"gpu": NaN}}}]}',
    ],
    ids=["cut", "list", "number", "deep", "future", "tiny", "nan"],
)
async def test_a_store_that_somebody_changed_keeps_nobody_from_starting(text):
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "dray-queue-usage", "namespace": "kube-system"},
    }
    usage = UsageOptions(half_life=3600.0)
    async with cluster(*definitions(), {**document, "data": {"usage.json": text}}, queue_usage=usage) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept"))
        await submit(local, "p", "a")

        async def there():
            return await placed(local) == ["p"]

        await local.eventually(there)

        async def repaired():
            found = [each for each in await local.list("ConfigMap") if each["metadata"]["name"] == "dray-queue-usage"]
            return found and found[0]["data"]["usage.json"] != text

        await local.eventually(repaired)


def members(name, number):
    for n in range(number):
        made = gpus.pod(f"{name}-{n}", claims=[f"{name}-{n}"])
        made["metadata"]["annotations"] = {"pod-group-name": name}
        yield objects.claim(f"{name}-{n}")
        yield made


async def make_gang(local, name, number, **spec):
    document = {"apiVersion": KAI_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": name}}
    spec = {"minMember": number, "queue": "a", **spec}
    await local.client.create(KAI_GROUP, {**document, "spec": spec}, namespace="default")
    for each in members(name, number):
        await local.create(each)


async def conditions(local, name):
    found = await local.client.get(KAI_GROUP, name, namespace="default")
    return (found.get("status") or {}).get("schedulingConditions")


async def test_a_group_says_why_it_waits_and_no_longer_when_it_runs():
    async with cluster(*definitions()) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept", limit=2))
        await make_gang(local, "g", 3)

        async def waits():
            return await conditions(local, "g")

        (found,) = await local.eventually(waits)
        assert found["type"] == "UnschedulableOnNodePool"
        assert found["reasons"][0]["reason"] == "OverLimit"
        assert "its limit of gpu is 2" in found["reasons"][0]["message"]
        await local.client.patch(KAI_QUEUE, "a", {"spec": queue("a", "dept", limit=3)["spec"]})

        async def runs():
            return len(await placed(local)) == 3 and await conditions(local, "g") == []

        await local.eventually(runs)


async def test_what_is_left_of_a_gang_goes(monkeypatch):
    monkeypatch.setattr(kai_groups, "_LOOK_SECONDS", 0.05)
    async with cluster(*definitions()) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept"))
        await make_gang(local, "g", 3, stalenessGracePeriod="100ms")

        async def runs():
            return len(await placed(local)) == 3

        await local.eventually(runs)
        await local.delete("Pod", "g-1")

        async def gone():
            return not await placed(local)

        await local.eventually(gone)

        async def told():
            events = await local.list("Event")
            return [each["message"] for each in events if each.get("reason") == "StaleGang"]

        assert "2 pods of PodGroup default/g are left" in (await local.eventually(told))[0]


async def test_a_group_that_waits_before_others_go_says_so():
    async with cluster(*definitions()) as local:
        await make(local, queue("dept", quota=-1), queue("a", "dept", quota=2), queue("b", "dept", quota=2))
        for n in range(4):
            await submit(local, f"b{n}", "b")

        async def all_of_b():
            return len(await placed(local)) == 4

        await local.eventually(all_of_b)
        await make_gang(local, "g", 2, preemptionDelay="1h")

        async def waits():
            return await conditions(local, "g")

        (found,) = await local.eventually(waits)
        assert found["reasons"][0]["reason"] == "PreemptionDelayNotElapsed"
        assert len(await placed(local)) == 4
