"""Disruption budgets: how many pods may go, as evictions and their users see it."""

from datetime import timedelta

import pytest

from dray.api.int_or_percent import scaled
from dray.client.clock import timestamp
from dray.client.errors import ApiError
from dray.controllers.disruption.budget import desired, disrupted
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests.controllers.jobs import Clock, job, place, reasons


def cluster(clock=None):
    return LocalCluster(controllers=["disruption"], time=clock or Clock())


def budget(name="web", labels=None, **spec):
    return objects.pod_disruption_budget(name, labels or {"app": "web"}, **spec)


def pod(name, owner=None, app="web"):
    owners = [{**owned_by(owner), "controller": True}] if owner is not None else None
    return objects.pod(name, labels={"app": app}, ownerReferences=owners, terminationGracePeriodSeconds=30)


def owned_by(owner):
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


async def ready(local, *pods):
    for each in pods:
        await place(local, await local.create(each))


async def numbers(local, expected, current, wanted, allowed, name="web"):
    """Waits for expectedPods, currentHealthy, desiredHealthy and disruptionsAllowed; gives the status."""
    last = None

    async def as_wanted():
        nonlocal last
        last = (await local.get("PodDisruptionBudget", name)).get("status") or {}
        names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        is_observed = last.get("observedGeneration") == 1
        return (
            last
            if is_observed and tuple(last.get(each) for each in names) == (expected, current, wanted, allowed)
            else None
        )

    try:
        return await local.eventually(as_wanted, within=3)
    except AssertionError:
        raise AssertionError(last) from None


def condition(status):
    (found,) = [each for each in status["conditions"] if each["type"] == "DisruptionAllowed"]
    return found["status"], found["reason"]


async def evict(local, name):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await local.client.create(kind_of("Pod"), body, namespace="default", name=name, subresource="eviction")


async def test_bare_pods_are_counted_as_they_are():
    async with cluster() as local:
        await local.create(budget(minAvailable=2))
        assert condition(await numbers(local, 0, 0, 2, 0)) == ("False", "InsufficientPods")
        await ready(local, pod("a"), pod("b"), pod("c"), pod("other", app="db"))
        assert condition(await numbers(local, 3, 3, 2, 1)) == ("True", "SufficientPods")
        await local.patch(
            "Pod", "a", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status"
        )
        assert condition(await numbers(local, 3, 2, 2, 0)) == ("False", "InsufficientPods")
        await local.patch("Pod", "b", {"metadata": {"labels": {"app": "db"}}})
        await numbers(local, 2, 1, 2, 0)
        await local.delete("Pod", "a")
        await numbers(local, 1, 1, 2, 0)


async def test_a_job_says_how_many_pods_it_wants():
    async with cluster() as local:
        owner = await local.create(job(parallelism=4))
        await local.create(budget(maxUnavailable="50%"))
        await ready(local, pod("a", owner), pod("b", owner), pod("c", owner))
        await numbers(local, 4, 3, 2, 1)
        await local.patch("Job", "work", {"spec": {"parallelism": 3}})
        await numbers(local, 3, 3, 1, 2)


async def test_a_percentage_to_be_available_is_of_what_is_wanted():
    async with cluster() as local:
        owner = await local.create(job(parallelism=5))
        await local.create(budget(minAvailable="50%"))
        await ready(local, *(pod(name, owner) for name in "abcde"))
        await numbers(local, 5, 5, 3, 2)


async def test_pods_that_nobody_controls_do_not_count_towards_a_percentage():
    async with cluster() as local:
        await ready(local, pod("a"), pod("b"))
        await local.create(budget(maxUnavailable=1))
        await numbers(local, 0, 2, 0, 0)
        assert "UnmanagedPods" in await reasons(local)


@pytest.mark.parametrize(
    "controller", [("batch/v1", "Job", "gone"), ("apps/v1", "%2e%2e", "gone"), ("v1", "ConfigMap", "%2e%2e")]
)
async def test_nothing_may_go_where_a_controller_is_unknown(controller):
    async with cluster() as local:
        api_version, kind, name = controller
        gone = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": "1"}}
        await ready(local, pod("a", gone))
        await local.create(budget(minAvailable="10%"))
        assert condition(await numbers(local, 0, 0, 0, 0)) == ("False", "SyncFailed")


async def test_evictions_are_spent_and_come_back_when_the_pod_is_gone():
    async with cluster() as local:
        await ready(local, pod("a"), pod("b"), pod("c"))
        await local.create(budget(minAvailable=2))
        await numbers(local, 3, 3, 2, 1)
        await evict(local, "a")
        status = await numbers(local, 3, 2, 2, 0)
        assert "disruptedPods" not in status, "it was seen to be leaving"
        with pytest.raises(ApiError, match="violate the pod's disruption budget"):
            await evict(local, "b")
        assert "deletionTimestamp" not in (await local.get("Pod", "b"))["metadata"]
        await local.delete("Pod", "a")
        await ready(local, pod("d"))
        await numbers(local, 3, 3, 2, 1)


async def test_an_eviction_that_does_not_happen_counts_no_longer_after_two_minutes():
    clock = Clock()
    async with cluster(clock) as local:
        await ready(local, pod("a"), pod("b"))
        await local.create(budget(minAvailable=1))
        status = await numbers(local, 2, 2, 1, 1)
        granted = {"a": timestamp(clock.now()), "gone": timestamp(clock.now())}
        change = {"status": {**status, "disruptedPods": granted, "disruptionsAllowed": 0}}
        await local.patch("PodDisruptionBudget", "web", change, subresource="status")
        status = await numbers(local, 2, 1, 1, 0)
        await local.eventually(lambda: only_waits_for(local, "a"))
        clock.advance(121)
        await local.patch("Pod", "b", {"metadata": {"labels": {"x": "y"}}})
        status = await numbers(local, 2, 2, 1, 1)
        assert "disruptedPods" not in status
        assert "NotDeleted" in await reasons(local)


async def only_waits_for(local, name):
    status = (await local.get("PodDisruptionBudget", "web"))["status"]
    return list(status.get("disruptedPods") or {}) == [name]


@pytest.mark.parametrize(
    ("value", "total", "expected"), [(3, 10, 3), ("50%", 5, 3), ("0%", 5, 0), ("100%", 5, 5), ("1%", 1, 1)]
)
def test_percentages_are_rounded_up(value, total, expected):
    assert scaled(value, total) == expected


def test_more_may_be_missing_than_there_are():
    assert desired({"spec": {"maxUnavailable": 5}}, 3) == 0


def test_the_next_eviction_to_be_overdue_is_known():
    now = Clock().now()
    waiting = {"a": timestamp(now), "b": timestamp(now - timedelta(seconds=60))}
    found = disrupted({"status": {"disruptedPods": waiting}}, [{"metadata": {"name": name}} for name in "ab"], now)
    assert found.pods == waiting
    assert found.until - now <= timedelta(seconds=60)


async def test_pods_of_a_deployment_are_counted_for_it_as_a_whole():
    async with cluster() as local:
        whole = await local.create(objects.deployment("web", replicas=4))
        for name, replicas in (("old", 3), ("new", 2)):
            part = objects.replica_set(
                name, replicas=replicas, ownerReferences=[{**owned_by(whole), "controller": True}]
            )
            made = await local.create(part)
            await ready(local, *(pod(f"{name}-{each}", made) for each in range(replicas)))
        await local.create(budget(maxUnavailable="25%"))
        await numbers(local, 4, 5, 3, 2)
        await local.patch("Deployment", "web", {"spec": {"replicas": 8}})
        await numbers(local, 8, 5, 6, 0)
