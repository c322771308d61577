"""Coordinated leader election: candidates for a Lease are asked, and the best of those that answer holds it."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from dray.client.clock import micro_timestamp
from dray.client.errors import NotFound
from dray.controllers.leader_election import candidates
from dray.testing.cluster import LocalCluster, kind_of

CANDIDATES = kind_of("LeaseCandidate", "coordination.k8s.io/v1beta1")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
THIRD_PARTY = "example.com/tallest"
MOMENT = 0.15


def candidate(
    name, emulation="1.37.0", binary="1.37.0", *, strategy=candidates.OLDEST, renewed=0.0, asked=None, now=NOW
):
    """Renewed and asked as many seconds ago."""
    spec = {"leaseName": "lock", "binaryVersion": binary, "emulationVersion": emulation, "strategy": strategy}
    spec["renewTime"] = micro_timestamp(now - timedelta(seconds=renewed))
    if asked is not None:
        spec["pingTime"] = micro_timestamp(now - timedelta(seconds=asked))
    return {
        "apiVersion": "coordination.k8s.io/v1beta1",
        "kind": "LeaseCandidate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def made(*members, second=0):
    each = candidate(*members)
    each["metadata"]["creationTimestamp"] = f"2030-01-01T00:00:0{second}Z"
    return each


@pytest.mark.parametrize(
    ("among", "best"),
    [
        ([made("a", "1.37.0", "1.37.0"), made("b", "1.36.0", "1.37.0")], "b"),
        ([made("a", "1.9.0", "1.10.0"), made("b", "1.10.0", "1.10.0")], "a"),
        ([made("a", "1.36.0", "1.37.0"), made("b", "1.36.0", "1.36.0")], "b"),
        ([made("a", second=2), made("b", second=1)], "b"),
    ],
)
def test_the_oldest_version_is_the_best(among, best):
    assert candidates.best_of(among) == best


@pytest.mark.parametrize("year", [1, 9999])
def test_who_was_heard_of_at_the_end_of_time(year):
    there = candidate("a", asked=1)
    there["spec"] |= dict.fromkeys(("renewTime", "pingTime"), f"{year:04}-12-31T23:59:59.999999Z")
    assert candidates.is_forgotten(there, NOW) == (year == 1)
    assert candidates.is_heard(there, NOW) == (year == 9999)
    assert not candidates.is_mute(there, NOW)


def test_the_strategy_is_that_of_the_newest_program():
    old, new = candidate("old", binary="1.36.0", emulation="1.36.0"), candidate("new", strategy=THIRD_PARTY)
    assert candidates.strategy_of([old, new]) == THIRD_PARTY
    assert candidates.strategy_of([new, candidate("other")]) == ""


@pytest.mark.parametrize(
    ("renewed", "asked", "is_asked", "is_mute", "is_heard"),
    [
        (1, None, False, False, True),
        (60, None, False, False, False),
        (60, 4, True, False, False),
        (60, 6, True, True, False),
        (3, 4, False, False, True),
    ],
)
def test_who_answers(renewed, asked, is_asked, is_mute, is_heard):
    each = candidate("a", renewed=renewed, asked=asked)
    found = candidates.is_asked(each), candidates.is_mute(each, NOW), candidates.is_heard(each, NOW)
    assert found == (is_asked, is_mute, is_heard)


def electing():
    return LocalCluster(controllers=["leader-election"])


def of_now(cluster, *members, **options):
    return candidate(*members, now=cluster.time.now(), **options)


async def find(cluster, name):
    with contextlib.suppress(NotFound):
        return await cluster.client.get(CANDIDATES, name, namespace="default")


async def lock(cluster):
    found = await cluster.get("Lease", "lock")
    return (found or {}).get("spec") or {}


async def holds(cluster, name):
    return (await lock(cluster)).get("holderIdentity") == name


def lease(holder, *, ago=0, seconds=60, now):
    renewed = micro_timestamp(now - timedelta(seconds=ago))
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed, "leaseTransitions": 3}
    metadata = {"name": "lock", "namespace": "default"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


async def test_a_lease_is_made_for_the_best_candidate():
    async with electing() as cluster:
        await cluster.create(of_now(cluster, "new", "1.37.0"))
        await cluster.eventually(lambda: holds(cluster, "new"))
        assert (await lock(cluster))["strategy"] == candidates.OLDEST


async def test_a_better_candidate_is_preferred_to_the_holder():
    async with electing() as cluster:
        await cluster.create(lease("new", now=cluster.time.now()))
        await cluster.create(of_now(cluster, "new", "1.37.0"))
        await cluster.create(of_now(cluster, "old", "1.36.0"))

        async def prefers():
            return (await lock(cluster)).get("preferredHolder") == "old"

        await cluster.eventually(prefers)
        assert (await lock(cluster))["holderIdentity"] == "new"


async def test_a_lease_that_has_lapsed_goes_to_a_candidate():
    async with electing() as cluster:
        await cluster.create(lease("gone", ago=60, seconds=5, now=cluster.time.now()))
        await cluster.create(of_now(cluster, "here"))
        await cluster.eventually(lambda: holds(cluster, "here"))
        assert (await lock(cluster))["leaseTransitions"] == 3


async def test_who_was_not_heard_of_is_asked_and_left_out_where_there_is_no_answer():
    async with electing() as cluster:
        await cluster.create(of_now(cluster, "silent", "1.35.0", renewed=60, asked=30))
        await cluster.create(of_now(cluster, "sleepy", "1.36.0", renewed=60))

        async def asked():
            return "pingTime" in (await find(cluster, "sleepy"))["spec"]

        await cluster.eventually(asked)
        assert not await lock(cluster)
        answer = {"spec": {"renewTime": micro_timestamp(cluster.time.now())}}
        await cluster.client.patch(CANDIDATES, "sleepy", answer, namespace="default")
        await cluster.eventually(lambda: holds(cluster, "sleepy"))


async def test_strategies_of_others_have_a_lease_without_a_holder():
    async with electing() as cluster:
        await cluster.create(of_now(cluster, "a", strategy=THIRD_PARTY))

        async def chosen_by_others():
            return (await lock(cluster)).get("strategy") == THIRD_PARTY

        await cluster.eventually(chosen_by_others)
        assert "holderIdentity" not in await lock(cluster)


async def test_candidates_that_disagree_are_told():
    async with electing() as cluster:
        await cluster.create(of_now(cluster, "a", strategy=THIRD_PARTY))
        await cluster.eventually(lambda: lock(cluster))
        await cluster.create(of_now(cluster, "b"))

        async def told():
            events = await cluster.client.list_all(kind_of("Event", "v1"), namespace="default")
            return [each for each in events["items"] if each["reason"] == "StrategyConflict"]

        await cluster.eventually(told)


async def test_candidates_are_forgotten_in_the_end():
    async with electing() as cluster:
        await cluster.create(of_now(cluster, "long-gone", renewed=1801))

        async def is_gone():
            return await find(cluster, "long-gone") is None

        await cluster.eventually(is_gone)


async def test_nothing_is_done_where_another_server_elects():
    other = lease("kube-apiserver", now=datetime.now(UTC))
    other["metadata"] = {"name": "leader-election-controller", "namespace": "kube-system"}
    waiting = candidate("a", now=datetime.now(UTC))
    async with LocalCluster(controllers=["leader-election"], objects=[other, waiting]) as cluster:
        await asyncio.sleep(MOMENT)
        assert not await lock(cluster)
