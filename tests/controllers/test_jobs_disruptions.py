"""Pods of a Job that others removed: they do not count as failures, and are replaced."""

import pytest

from dray.client.clock import timestamp
from tests.controllers.jobs import Clock, cluster, condition, finished, job, nudge, place, running, status

BY_SCHEDULER = ("PreemptionByScheduler", "ClusterQueueStopped", "LocalQueueStopped")
COUNT = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
BY_OTHERS = ("DeletionByTaintManager", "DeletionByDeviceTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC")


def disruption(reason):
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


async def disrupt(local, found, reason):
    """Evicts pods as the scheduler does: it writes the condition first, and then deletes them."""
    for pod in found:
        name = pod["metadata"]["name"]
        await place(local, pod)
        said = {**disruption(reason), "lastTransitionTime": timestamp(local.time.now())}
        await local.patch("Pod", name, {"status": {"conditions": [said]}}, subresource="status")
        await local.delete("Pod", name, grace=None)


@pytest.mark.parametrize("reason", BY_SCHEDULER)
@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_preempted_pods_are_replaced_at_once_and_do_not_count(reason, mode):
    async with cluster() as local:
        await local.create(job(parallelism=8, completions=8, completionMode=mode))
        for _ in range(3):
            await disrupt(local, await running(local, 8), reason)
        await running(local, 8)
        found = await local.get("Job", "work")
        assert "failed" not in found["status"]
        assert condition(found, "Failed") is None


@pytest.mark.parametrize("reason", BY_OTHERS)
async def test_pods_that_others_evict_do_not_count_and_are_replaced_soon(reason):
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(parallelism=8, completions=8))
        await disrupt(local, await running(local, 8), reason)
        await status(local, active=None, failed=None)
        # Ten seconds after the last of them; failures of eight pods would make it ten minutes.
        clock.advance(120)
        await nudge(local)
        await running(local, 8)
        assert condition(await local.get("Job", "work"), "Failed") is None


@pytest.mark.parametrize(
    ("reason", "rules"),
    [("TerminationByKubelet", []), ("PreemptionByScheduler", [COUNT])],
    ids=["by its own node", "by its policy"],
)
async def test_pods_that_their_node_ends_and_those_that_a_rule_counts_do_count(reason, rules):
    async with cluster() as local:
        await local.create(job(backoffLimit=0, **({"podFailurePolicy": {"rules": rules}} if rules else {})))
        [pod] = await running(local, 1)
        await place(local, pod)
        failed = {"phase": "Failed", "conditions": [disruption(reason)]}
        await local.patch("Pod", pod["metadata"]["name"], {"status": failed}, subresource="status")
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "BackoffLimitExceeded"


async def test_an_index_whose_pod_is_preempted_does_not_fail():
    async with cluster() as local:
        wanted = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}
        await local.create(job(parallelism=2, completions=2, **wanted))
        await disrupt(local, await running(local, 2), "PreemptionByScheduler")
        await running(local, 2)
        found = await local.get("Job", "work")
        assert not found["status"].get("failedIndexes")
        assert condition(found, "Failed") is None


async def test_disrupted_pods_that_end_before_they_are_replaced_do_not_count():
    """A Job with podReplacementPolicy Failed replaces a pod when it has ended."""
    async with cluster() as local:
        await local.create(job(parallelism=8, completions=8, podReplacementPolicy="Failed"))
        old = await running(local, 8)
        await disrupt(local, old, "PreemptionByScheduler")
        await status(local, terminating=8, active=None, failed=None)
        for pod in old:
            await local.patch("Pod", pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")
        new = await running(local, 8)
        assert not {pod["metadata"]["uid"] for pod in new} & {pod["metadata"]["uid"] for pod in old}
        assert "failed" not in (await local.get("Job", "work"))["status"]
