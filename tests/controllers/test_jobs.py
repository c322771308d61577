"""Jobs as their users see them: pods come, end, are counted, and the Job ends."""

import asyncio
import re

import pytest

from dray.controllers.jobs.controller import JobController
from tests.controllers.jobs import (
    Clock,
    cluster,
    condition,
    end,
    finished,
    job,
    nudge,
    place,
    pods,
    reasons,
    running,
    status,
)

TRACKING = "batch.kubernetes.io/job-tracking"


def quota(**hard):
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


async def test_a_job_makes_one_pod_and_is_complete_when_it_succeeds():
    async with cluster() as local:
        made = await local.create(job(labels={"app": "x"}))
        (pod,) = await running(local, 1)
        uid = made["metadata"]["uid"]
        (owner,) = pod["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "work",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels = pod["metadata"]["labels"]
        assert labels["app"] == "x"
        assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "work"
        assert labels["controller-uid"] == labels["batch.kubernetes.io/controller-uid"] == uid
        assert pod["metadata"]["finalizers"] == [TRACKING]
        assert re.fullmatch(r"work-[a-z0-9]{5}", pod["metadata"]["name"])
        found = await status(local, active=1, ready=0, terminating=0)
        assert found["status"]["startTime"]
        await place(local, pod)
        await status(local, active=1, ready=1)
        await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["succeeded"] == 1
        assert done["status"]["completionTime"]
        assert done["status"]["uncountedTerminatedPods"] == {}
        assert "active" not in done["status"]
        assert condition(done, "SuccessCriteriaMet") == condition(done, "Complete") == "CompletionsReached"
        (pod,) = await pods(local)
        assert not pod["metadata"].get("finalizers")
        assert {"SuccessfulCreate", "Completed"} <= set(await reasons(local))


async def test_no_more_pods_than_parallelism_and_as_many_successes_as_completions():
    async with cluster() as local:
        await local.create(job(parallelism=2, completions=5))
        for left in (5, 4, 3):
            first, *_ = await running(local, min(2, left))
            await end(local, first)
        for pod in await running(local, 2):
            await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["succeeded"] == 5
        assert len(await pods(local)) == 5


async def test_a_queue_of_work_is_done_when_one_succeeded_and_all_have_ended():
    async with cluster() as local:
        await local.create(job(parallelism=3))
        first, *others = await running(local, 3)
        await end(local, first)
        await status(local, active=2, succeeded=1)
        assert len(await running(local, 2)) == 2, "nothing is started in its place"
        for pod in others:
            await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["succeeded"] == 3


async def test_a_job_of_nothing_is_complete_at_once():
    async with cluster() as local:
        await local.create(job(completions=0))
        done = await finished(local, "Complete")
        assert done["status"]["startTime"]
        assert await pods(local) == []


async def test_failed_pods_are_replaced_after_a_time_that_doubles():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(backoffLimit=3))
        for failures, wait in ((1, 10), (2, 20), (3, 40)):
            (pod,) = await running(local, 1)
            await end(local, pod, code=1)
            await status(local, failed=failures, active=None, terminating=0)
            clock.advance(wait - 1)
            await nudge(local)
            await status(local, failed=failures, active=None)
            assert len(await pods(local)) == failures
            clock.advance(1)
            await nudge(local)
        (pod,) = await running(local, 1)
        await end(local, pod, code=1)
        done = await finished(local, "Failed")
        assert done["status"]["failed"] == 4
        assert condition(done, "FailureTarget") == condition(done, "Failed") == "BackoffLimitExceeded"
        assert "completionTime" not in done["status"]
        assert "BackoffLimitExceeded" in await reasons(local)


async def test_a_failing_job_ends_its_other_pods_and_waits_for_them():
    async with cluster() as local:
        await local.create(job(parallelism=3, completions=3, backoffLimit=0))
        first, second, third = await running(local, 3)
        for pod in (second, third):
            await place(local, pod)
        await status(local, active=3, ready=2)
        await end(local, first, code=1)
        found = await status(local, active=None, terminating=2, failed=3)
        assert condition(found, "FailureTarget") == "BackoffLimitExceeded"
        assert condition(found, "Failed") is None
        for pod in (second, third):
            await local.delete("Pod", pod["metadata"]["name"])
        done = await finished(local, "Failed")
        assert done["status"]["terminating"] == 0
        assert done["status"]["failed"] == 3


async def test_restarts_in_place_count_towards_the_backoff_limit():
    async with cluster() as local:
        await local.create(job(backoffLimit=2, restart="OnFailure"))
        (pod,) = await running(local, 1)
        again = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 2, "state": {}}
        state = {"status": {"phase": "Running", "containerStatuses": [again]}}
        await local.patch("Pod", pod["metadata"]["name"], state, subresource="status")
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "BackoffLimitExceeded"


async def replaced(local, clock):
    """After an hour, which is longer than any backoff, there is another pod."""
    clock.advance(3600)
    await nudge(local)
    await running(local, 1)


async def test_a_deleted_pod_counts_as_failed_and_is_replaced():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job())
        (pod,) = await running(local, 1)
        await local.delete("Pod", pod["metadata"]["name"])
        await status(local, failed=1, active=None)
        assert await pods(local) == [], "the finalizer is off"
        await replaced(local, clock)


async def test_pods_that_are_still_ending_are_replaced_only_when_failed_if_the_job_says_so():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(podReplacementPolicy="Failed"))
        (pod,) = await running(local, 1)
        await place(local, pod)
        await local.delete("Pod", pod["metadata"]["name"], grace=None)
        await status(local, terminating=1, active=None, failed=None)
        await nudge(local)
        assert len(await pods(local)) == 1
        await end(local, pod, code=137)
        await status(local, terminating=0, failed=1)
        await replaced(local, clock)


async def test_suspending_takes_the_pods_away_uncounted_and_resuming_brings_them_back():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(parallelism=2, completions=2, activeDeadlineSeconds=60))
        await running(local, 2)
        start = (await status(local, active=2))["status"]["startTime"]
        await local.patch("Job", "work", {"spec": {"suspend": True}})
        found = await status(local, active=None, failed=None, terminating=0)
        assert condition(found, "Suspended") == "JobSuspended"
        assert "startTime" not in found["status"]
        assert await pods(local) == []
        clock.advance(600)
        await local.patch("Job", "work", {"spec": {"suspend": False}})
        await running(local, 2)
        found = await status(local, active=2)
        assert condition(found, "Suspended") is None
        assert condition(found, "Failed") is None, "the deadline starts anew"
        assert found["status"]["startTime"] != start
        assert {"Suspended", "Resumed", "SuccessfulDelete"} <= set(await reasons(local))


async def test_a_job_made_suspended_does_not_start():
    async with cluster() as local:
        await local.create(job(suspend=True))
        found = await status(local, active=None, ready=0)
        assert condition(found, "Suspended") == "JobSuspended"
        assert "startTime" not in found["status"]
        assert await pods(local) == []


async def test_a_job_that_is_done_is_not_suspended():
    async with cluster() as local:
        await local.create(job(completions=0, suspend=True))
        done = await finished(local, "Complete")
        assert condition(done, "Suspended") is None
        assert done["status"]["startTime"]


async def test_fewer_pods_after_parallelism_is_lowered_least_valuable_first():
    async with cluster() as local:
        await local.create(job(parallelism=3, completions=9))
        first, *_ = await running(local, 3)
        await place(local, first)
        await status(local, ready=1)
        await local.patch("Job", "work", {"spec": {"parallelism": 1}})
        (left,) = await running(local, 1)
        assert left["metadata"]["name"] == first["metadata"]["name"]
        await status(local, active=1, failed=None, terminating=0)


async def test_a_job_that_is_active_too_long_fails():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(activeDeadlineSeconds=30))
        await running(local, 1)
        await status(local, active=1)
        clock.advance(29)
        await nudge(local)
        await status(local, active=1)
        clock.advance(1)
        await nudge(local)
        done = await finished(local, "Failed")
        assert condition(done, "Failed") == "DeadlineExceeded"
        await running(local, 0)


async def test_a_job_whose_time_is_up_waits_for_its_last_pod_without_looking_again_and_again(monkeypatch):
    clock, waits = Clock(), []
    reconcile = JobController._reconcile

    async def observed(self, key):
        waits.append(await reconcile(self, key))
        return waits[-1]

    monkeypatch.setattr(JobController, "_reconcile", observed)
    async with cluster(clock) as local:
        await local.create(job(activeDeadlineSeconds=30))
        (pod,) = await running(local, 1)
        await place(local, pod)
        # Its time runs from the start that it has written, which a conflict with the nudge would make it write anew.
        await status(local, active=1, ready=1)
        clock.advance(31)
        await nudge(local)

        async def is_announced():
            return condition(await local.get("Job", "work"), "FailureTarget")

        # Should the nudge come while it looks at the old time, the controller's own timer rings after 30 s.
        await local.eventually(is_announced, within=60)
        assert (await local.get("Pod", pod["metadata"]["name"]))["metadata"]["deletionTimestamp"]
        await asyncio.sleep(0.2)
        assert all(wait is None or wait > 0 for wait in waits)
        assert len(waits) < 20


@pytest.mark.parametrize("member", ["activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit"])
async def test_numbers_of_a_job_may_be_as_large_as_their_type(member):
    largest = 2**63 - 1 if member == "activeDeadlineSeconds" else 2**31 - 1
    async with cluster() as local:
        await local.create(job(**{member: largest}))
        (pod,) = await running(local, 1)
        await end(local, pod)
        await finished(local, "Complete")


async def test_a_finished_job_goes_after_its_time_to_live():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(job(ttlSecondsAfterFinished=100))
        (pod,) = await running(local, 1)
        await end(local, pod)
        await finished(local, "Complete")
        clock.advance(99)
        await nudge(local)
        assert "deletionTimestamp" not in (await local.get("Job", "work"))["metadata"]
        clock.advance(1)
        await nudge(local)

        async def is_leaving():
            return (await local.get("Job", "work"))["metadata"].get("deletionTimestamp")

        await local.eventually(is_leaving)
        assert (await local.get("Job", "work"))["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_pods_of_a_job_that_is_gone_are_let_go():
    async with cluster() as local:
        await local.create(job())
        await running(local, 1)
        await status(local, active=1)
        await local.delete("Job", "work")

        async def is_free():
            return not any(pod["metadata"].get("finalizers") for pod in await pods(local))

        await local.eventually(is_free)


async def test_jobs_that_somebody_else_manages_are_left_alone():
    async with cluster() as local:
        await local.create(job("theirs", managedBy="example.com/other"))
        await local.create(job())
        await running(local, 1)
        assert await pods(local, "theirs") == []
        assert "startTime" not in ((await local.get("Job", "theirs")).get("status") or {})


async def test_refused_pods_are_told_and_tried_again():
    async with cluster() as local:
        await local.create(quota(pods="0"))
        await local.create(job())

        async def is_told():
            return "FailedCreate" in await reasons(local)

        await local.eventually(is_told)
        await local.delete("ResourceQuota", "q")
        await running(local, 1)


async def test_pods_count_while_others_are_refused():
    async with cluster() as local:
        await local.create(quota(**{"count/pods": "2"}))
        await local.create(job(parallelism=3, completions=3))
        first, _ = await running(local, 2)
        await status(local, active=2)
        await end(local, first)
        await status(local, active=1, succeeded=1)
        assert (await local.get("Pod", first["metadata"]["name"]))["metadata"].get("finalizers") is None


async def test_the_time_of_a_job_runs_while_its_pods_are_refused():
    clock = Clock()
    async with cluster(clock) as local:
        await local.create(quota(pods="0"))
        await local.create(job(activeDeadlineSeconds=30))
        found = await status(local, ready=0)
        assert found["status"]["startTime"]
        clock.advance(31)
        await nudge(local)
        assert condition(await finished(local, "Failed"), "Failed") == "DeadlineExceeded"


async def test_many_pods_at_once():
    async with cluster() as local:
        await local.create(job(parallelism=60, completions=60))
        for pod in await running(local, 60):
            await end(local, pod)
        done = await finished(local, "Complete")
        assert done["status"]["succeeded"] == 60
        assert len(await pods(local)) == 60, "none was made twice"
