"""What a preempted pod is told: by reclaim of quota, and of which queue, or by priority, with both priorities."""

import pytest

from dray.client.foreign_kinds import definitions
from dray.testing import objects
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal
from tests.scheduling_loop.test_queue_feed import cluster, make


async def queues(local, **preemption):
    await make(local, flavor())
    for name in ("nlp", "vision"):
        spec = {"cohortName": "org", "preemption": preemption}
        await make(local, cluster_queue(name, ("any", {GPU: nominal(2)}), **spec))
        await make(local, local_queue(name, name))


def pod(name, queue="", **spec):
    return objects.pod(name, templates=["one"], labels={QUEUE: queue} if queue else None, **spec)


async def bound(local, number):
    async def all_bound():
        return sum(bool(each["spec"].get("nodeName")) for each in await local.list("Pod")) == number

    await local.eventually(all_bound)


async def preempted(local):
    """The messages of the event about the victim, and of its condition."""

    async def told():
        for event in await local.list("Event"):
            if event["reason"] == "Preempted":
                return event["involvedObject"]["name"], event["message"]
        return None

    return await local.eventually(told)


async def test_a_borrower_is_told_which_queue_reclaims_its_quota():
    async with cluster(*definitions()) as local:
        await queues(local, reclaimWithinCohort="Any")
        for number in range(4):
            await local.create(pod(f"v{number}", "vision", terminationGracePeriodSeconds=600))
        await bound(local, 4)
        await local.create(pod("n", "nlp"))
        victim, message = await preempted(local)
        node = (await local.get("Pod", victim))["spec"]["nodeName"]
        why = "queue nlp reclaims quota from queue vision"
        assert message == f"Preempted by pod default/n on node {node}: {why}"
        conditions = (await local.get("Pod", victim))["status"]["conditions"]
        (disrupted,) = (each for each in conditions if each["type"] == "DisruptionTarget")
        assert disrupted["message"].endswith(f"preempting: {why}")


@pytest.mark.parametrize("queue", ["nlp", ""], ids=["in its queue", "for a place"])
async def test_a_less_important_pod_is_told_both_priorities(queue):
    async with cluster(*definitions(), objects.priority_class("urgent", 1000)) as local:
        await queues(local, withinClusterQueue="LowerPriority")
        for number in range(4):
            await local.create(pod(f"p{number}", queue, terminationGracePeriodSeconds=600))
        await bound(local, 4)
        await local.create(pod("urgent", queue, priorityClassName="urgent"))
        _, message = await preempted(local)
        assert message.startswith("Preempted by pod default/urgent on node ")
        assert message.endswith(": priority 1000 is higher than 0")
