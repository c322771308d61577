"""Indexed Jobs, their limits for each index, and the policies for failure and success."""

import re

from tests.controllers.jobs import Clock, cluster, condition, end, finished, job, nudge, place, pods, running, status

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def index(pod):
    return int(pod["metadata"]["annotations"][INDEX])


async def by_index(local, number):
    return {index(pod): pod for pod in await running(local, number)}


async def test_each_pod_knows_its_index():
    async with cluster() as local:
        await local.create(job(completionMode="Indexed", completions=3, parallelism=2))
        found = await by_index(local, 2)
        assert sorted(found) == [0, 1]
        pod = found[1]
        assert re.fullmatch(r"work-1-[a-z0-9]{5}", pod["metadata"]["name"])
        assert pod["metadata"]["labels"][INDEX] == "1"
        assert pod["spec"]["hostname"] == "work-1"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
        await end(local, pod)
        await status(local, completedIndexes="1", succeeded=1)
        found = await by_index(local, 2)
        assert sorted(found) == [0, 2]
        for pod in found.values():
            await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["completedIndexes"] == "0-2"
        assert done["status"]["succeeded"] == 3


async def test_a_failed_index_is_tried_again():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(completionMode="Indexed", completions=2, parallelism=2))
        found = await by_index(local, 2)
        await end(local, found[1], code=1)
        await status(local, failed=1, active=1)
        clock.advance(10)
        await nudge(local)
        found = await by_index(local, 2)
        for pod in found.values():
            await end(local, pod)
        done = await finished(local, "Complete")
        assert (done["status"]["succeeded"], done["status"]["failed"]) == (2, 1)


async def test_an_indexed_job_can_grow_and_shrink():
    async with cluster() as local:
        await local.create(job(completionMode="Indexed", completions=3, parallelism=3))
        found = await by_index(local, 3)
        await end(local, found[2])
        await status(local, completedIndexes="2")
        await local.patch("Job", "work", {"spec": {"completions": 1, "parallelism": 1}})
        assert sorted(await by_index(local, 1)) == [0]
        await status(local, completedIndexes=None, succeeded=None)
        await local.patch("Job", "work", {"spec": {"completions": 2, "parallelism": 2}})
        for pod in (await by_index(local, 2)).values():
            await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["completedIndexes"] == "0,1"


async def test_an_index_that_failed_too_often_is_given_up_and_the_others_go_on():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1))
        found = await by_index(local, 2)
        assert found[0]["metadata"]["annotations"][FAILURES] == "0"
        await end(local, found[0], code=1)
        await status(local, active=1)
        kept = next(pod for pod in await pods(local) if pod["metadata"]["name"] == found[0]["metadata"]["name"])
        assert kept["metadata"]["finalizers"], "its failure count is still needed"
        clock.advance(10)
        await nudge(local)
        found = await by_index(local, 2)
        assert found[0]["metadata"]["annotations"][FAILURES] == "1"
        await status(local, failed=1)
        await end(local, found[0], code=1)
        await status(local, failedIndexes="0", failed=2, active=1)
        await end(local, found[1])
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "FailedIndexes"
        assert done["status"]["completedIndexes"] == "1"
        assert done["status"]["succeeded"] == 1


async def test_too_many_failed_indexes_end_the_job():
    async with cluster() as local:
        limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
        await local.create(job(completionMode="Indexed", completions=4, parallelism=4, **limits))
        found = await by_index(local, 4)
        await end(local, found[3], code=1)
        await status(local, failedIndexes="3")
        await end(local, found[1], code=1)
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "MaxFailedIndexesExceeded"
        assert done["status"]["failedIndexes"] == "1,3"


async def test_the_success_policy_ends_the_job_with_pods_still_running():
    async with cluster() as local:
        rules = [{"succeededIndexes": "0-1", "succeededCount": 1}]
        policy = {"successPolicy": {"rules": rules}}
        await local.create(job(completionMode="Indexed", completions=3, parallelism=3, **policy))
        found = await by_index(local, 3)
        await place(local, found[2])
        await status(local, ready=1)
        await end(local, found[1])
        now = await status(local, terminating=1, active=None)
        assert condition(now, "SuccessCriteriaMet") == "SuccessPolicy"
        assert condition(now, "Complete") is None, "a pod is still ending"
        await local.delete("Pod", found[2]["metadata"]["name"])
        done = await finished(local, "Complete")
        assert condition(done, "Complete") == "SuccessPolicy"
        assert done["status"]["completedIndexes"] == "1"
        assert "failed" not in done["status"]


def failure_policy(*rules, **spec):
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


async def test_an_exit_code_can_end_the_whole_job():
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}
    async with cluster() as local:
        await local.create(failure_policy(rule, parallelism=2, completions=2))
        first, _ = await running(local, 2)
        await end(local, first, code=42)
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == condition(done, "FailureTarget") == "PodFailurePolicy"
        message = next(each["message"] for each in done["status"]["conditions"] if each["type"] == "Failed")
        name = first["metadata"]["name"]
        assert (
            message
            == f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
        )


async def test_a_disruption_can_be_no_failure():
    clock = Clock()
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    async with cluster(clock) as local:
        await local.create(failure_policy(rule, backoffLimit=0))
        (pod,) = await running(local, 1)
        await end(local, pod, code=137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
        await status(local, active=None, failed=None, uncountedTerminatedPods={})
        clock.advance(10)
        await nudge(local)
        (pod,) = await running(local, 1)
        await end(local, pod)
        done = await finished(local, "Complete")
        assert "failed" not in done["status"]


async def test_an_exit_code_can_give_up_an_index():
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}}
    async with cluster() as local:
        spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 5}
        await local.create(failure_policy(rule, **spec))
        found = await by_index(local, 2)
        await end(local, found[1], code=2)
        await status(local, failedIndexes="1", failed=1)
        await end(local, found[0])
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "FailedIndexes"
