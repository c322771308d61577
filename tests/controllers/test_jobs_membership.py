"""Which pods are a Job's: by whom they are controlled, and what its selector says."""

import asyncio

from dray.client.interface import DeleteOptions
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.controllers.jobs import Clock, cluster, end, finished, job, running, status

TRACKING = "batch.kubernetes.io/job-tracking"
SELECTOR = {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}, "labels": {"app": "x"}}


def pod(name, **metadata):
    return objects.pod(name, restartPolicy="Never", **{"labels": {"app": "x"}, **metadata})


async def owner(local, name):
    found = (await local.get("Pod", name))["metadata"]
    return [each["name"] for each in found.get("ownerReferences") or ()], found.get("finalizers") or []


async def names(local):
    return {each["metadata"]["name"] for each in await local.list("Pod")}


async def test_a_pod_without_the_labels_is_let_go_and_another_made():
    async with cluster() as local:
        await local.create(job())
        (first,) = await running(local, 1)
        name = first["metadata"]["name"]
        await local.patch("Pod", name, {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": None}}})

        async def is_replaced():
            return len(await names(local)) == 2

        await local.eventually(is_replaced)
        assert await owner(local, name) == ([], [])
        await status(local, active=1, failed=None, uncountedTerminatedPods={})
        (second,) = await names(local) - {name}
        await end(local, await local.get("Pod", second))
        assert (await finished(local, "Complete"))["status"]["succeeded"] == 1
        assert (await local.get("Pod", name))["status"]["phase"] == "Pending"


async def test_pods_that_nobody_controls_are_taken_in_and_counted():
    async with cluster() as local:
        await local.create(pod("running"))
        done = await local.create(pod("done"))
        await end(local, done)
        await local.create(job(parallelism=3, completions=3, **SELECTOR))
        await status(local, active=2, succeeded=1)
        assert await owner(local, "running") == (["work"], [TRACKING])
        assert len(await names(local)) == 3
        await local.delete("Pod", "done")
        await local.create(pod("late"))
        await status(local, active=2, succeeded=1)

        async def is_back_to_two():
            return len(await names(local)) == 2

        await local.eventually(is_back_to_two)
        for name in await names(local):
            await end(local, await local.get("Pod", name))
        assert (await finished(local, "Complete"))["status"]["succeeded"] == 3


async def test_a_reference_that_somebody_takes_off_comes_back():
    async with cluster() as local:
        await local.create(job())
        (first,) = await running(local, 1)
        await local.patch("Pod", first["metadata"]["name"], {"metadata": {"ownerReferences": None}})

        async def is_back():
            return await owner(local, first["metadata"]["name"]) == (["work"], [TRACKING])

        await local.eventually(is_back)
        assert len(await names(local)) == 1


async def test_what_belongs_to_somebody_else_or_is_leaving_stays_as_it_is():
    async with cluster() as local:
        other = {"apiVersion": "example.com/v1", "kind": "Set", "name": "other", "uid": "u", "controller": True}
        await local.create(pod("theirs", ownerReferences=[other]))
        await local.create(pod("leaving", finalizers=["example.com/hold"]))
        await local.delete("Pod", "leaving")
        await local.create(pod("unlike", labels={"app": "y"}))
        await local.create(job(**SELECTOR))
        await status(local, active=1)
        await asyncio.sleep(0.05)
        assert await owner(local, "theirs") == (["other"], [])
        assert await owner(local, "leaving") == ([], ["example.com/hold"])
        assert await owner(local, "unlike") == ([], [])


async def test_a_pod_that_was_taken_away_altogether_is_let_go():
    async with cluster() as local:
        await local.create(job())
        (first,) = await running(local, 1)
        name = first["metadata"]["name"]
        await local.patch("Pod", name, {"metadata": {"labels": None, "ownerReferences": None}})

        async def is_let_go():
            return await owner(local, name) == ([], [])

        await local.eventually(is_let_go)
        await status(local, active=1, failed=None)
        assert len(await names(local)) == 2


async def test_a_job_takes_over_from_one_that_left_its_pods():
    async with LocalCluster(controllers=["job", "garbage-collector"], time=Clock()) as local:
        await local.create(job("old", **SELECTOR))
        (first,) = await running(local, 1, "old")
        options = DeleteOptions(propagation="Orphan")
        await local.client.delete(kind_of("Job"), "old", namespace="default", options=options)

        async def is_left():
            return await owner(local, first["metadata"]["name"]) == ([], [])

        await local.eventually(is_left)
        await local.create(job("new", **SELECTOR))
        await status(local, "new", active=1)
        assert await owner(local, first["metadata"]["name"]) == (["new"], [TRACKING])
        assert len(await names(local)) == 1


async def test_of_two_jobs_that_want_a_pod_one_has_it():
    async with cluster() as local:
        for name in ("one", "two"):
            await local.create(job(name, **SELECTOR))
            await running(local, 1, name)
        await local.create(pod("wanted"))

        async def is_taken():
            return await local.get("Pod", "wanted") is None or (await owner(local, "wanted"))[0]

        await local.eventually(is_taken)
        for name in ("one", "two"):
            await status(local, name, active=1, failed=None)
