"""Gang Jobs on simulated machines: where a queue puts them, and that they come back after they were preempted."""

from collections import Counter

import pytest

from dray.answers.views.queue_view import find, views
from dray.api.tables.gangs import COLUMNS
from dray.client.foreign_kinds import KUEUE, definitions
from dray.testing import objects
from tests.fleet.rehearsal import Rehearsal
from tests.scheduling.test_queues import QUEUE, cluster_queue, flavor, local_queue, nominal

GPU = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
WITHIN_QUEUE = {"preemption": {"withinClusterQueue": "LowerPriority"}}
STATUS = next(column.cell for column in COLUMNS["scheduling.k8s.io", "PodGroup"] if column.name == "Status")


async def queue(cluster, number, **spec):
    await cluster.create(*definitions())
    for document in (flavor(), cluster_queue("team", ("any", {GPU: nominal(number)}), **spec)):
        await make(cluster, document)
    await make(cluster, local_queue("team", "team"))

    async def acted_upon():
        return find(views(cluster.plane.loop.scheduler), "team")

    await cluster.until(acted_upon)


async def make(cluster, document):
    resource = KUEUE[document["kind"]]
    body = {"apiVersion": resource.api_version, **document}
    await cluster.client.create(resource, body, namespace=document["metadata"].get("namespace", ""))


def gang_job(name, number=8, *, queued=True, run_seconds=None, priority="", **spec):
    life = {"simulated.dray.dev/run-seconds": str(run_seconds)} if run_seconds else None
    template = objects.pod(name, templates=["one"], annotations=life, restartPolicy="Never")
    if priority:
        template["spec"]["priorityClassName"] = priority
    labels = {QUEUE: "team"} if queued else None
    scheduling = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
    return objects.job(
        name, template, labels=labels, parallelism=number, completions=number, scheduling=scheduling, **spec
    )


async def pods_of(cluster, name, phase):
    pods = [pod for pod in await cluster.list("Pod") if pod["metadata"]["labels"]["job-name"] == name]
    return [pod for pod in pods if pod["status"]["phase"] == phase and not pod["metadata"].get("deletionTimestamp")]


async def running(cluster, name, number=8):
    async def all_of_them():
        found = await pods_of(cluster, name, "Running")
        return found if len(found) == number else None

    return await cluster.until(all_of_them)


@pytest.mark.parametrize("queued", [True, False], ids=["in a queue", "without a queue"])
async def test_a_gang_of_eight_is_on_one_machine_of_eight_gpus(virtual_time, queued):
    async with Rehearsal("p5.48xlarge=4").going() as cluster:
        await queue(cluster, 16)
        template = objects.claim_template("one", objects.request(deviceClassName="gpu.nvidia.com"))
        await cluster.create(template, gang_job("train", queued=queued))
        nodes = Counter(pod["spec"]["nodeName"] for pod in await running(cluster, "train"))
        assert list(nodes.values()) == [8]


async def group_of(cluster, name):
    for group in await cluster.list("PodGroup"):
        if group["metadata"]["ownerReferences"][0]["name"] == name:
            return group
    return None


def waiting_in_queue(cluster):
    """The names of the groups that `dray queue team` lists."""
    [team] = find(views(cluster.plane.loop.scheduler), "team")
    return {waiter.group.name for waiter in team.waiting}


POLICY = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


@pytest.mark.parametrize("queued", [True, False], ids=["for quota", "for a place"])
@pytest.mark.parametrize("policy", [None, POLICY], ids=["default", "podFailurePolicy"])
async def test_a_preempted_gang_job_comes_back_and_completes(virtual_time, queued, policy):
    async with Rehearsal("p5.48xlarge=1").going() as cluster:
        await queue(cluster, 8, **WITHIN_QUEUE)
        template = objects.claim_template("one", objects.request(deviceClassName="gpu.nvidia.com"))
        more = {"podFailurePolicy": policy} if policy else {}
        job = gang_job("train", queued=queued, run_seconds=600, **more)
        await cluster.create(template, objects.priority_class("urgent", 1000), job)
        await running(cluster, "train")
        await cluster.create(gang_job("urgent", queued=queued, run_seconds=300, priority="urgent"))
        await running(cluster, "urgent")

        async def waits():
            return len(await pods_of(cluster, "train", "Pending")) == 8

        await cluster.until(waits, within=60)
        group = await group_of(cluster, "train")
        assert STATUS(group, "") == "PreemptionByScheduler"
        assert STATUS(await group_of(cluster, "urgent"), "") == "Scheduled"
        if queued:
            assert waiting_in_queue(cluster) == {group["metadata"]["name"]}
        await running(cluster, "train")
        assert STATUS(await group_of(cluster, "train"), "") == "Scheduled"

        async def complete():
            found = (await cluster.get("Job", "train"))["status"]
            assert "failed" not in found
            return any(condition["type"] == "Complete" for condition in found.get("conditions") or ())

        await cluster.until(complete)
