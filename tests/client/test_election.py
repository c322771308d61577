import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from dray.client.election import LeaderElection, LeadershipLost
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.interface import GroupVersionResource
from dray.testing.cluster import LocalCluster

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
RETRY = 0.01


class Clock:
    """Seconds that go on only when they are told to."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


class Flaky:
    """A client that can be cut off from the server."""

    def __init__(self, client):
        self._client = client
        self.cut = False

    def __getattr__(self, name):
        method = getattr(self._client, name)

        async def call(*args, **kwargs):
            if self.cut:
                raise ConnectionFailed("no route to host", sent=False)
            return await method(*args, **kwargs)

        return call


class Candidate:
    def __init__(self, client, identity, clock, leaders, **options):
        options = {"lease_seconds": 15, "renew_deadline": 10, "retry_period": RETRY, **options}
        self.client = Flaky(client)
        self.election = LeaderElection(
            self.client, "kube-system", "dray", identity, time=clock, monotonic=clock, **options
        )
        self.identity = identity
        self.leaders = leaders
        self.task = asyncio.create_task(self.election.lead(self.work))

    async def work(self):
        self.leaders.append(self.identity)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.leaders.remove(self.identity)

    async def stop(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
            await self.task


async def lease(cluster):
    return (await cluster.client.get(LEASES, "dray", namespace="kube-system"))["spec"]


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.002)


async def some_rounds():
    await asyncio.sleep(RETRY * 8)


async def test_one_leads_and_the_lease_says_who_and_since_when():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders)
        first = await lease(cluster)
        assert first["holderIdentity"] == "a"
        assert first["leaseDurationSeconds"] == 15
        assert first["acquireTime"] == first["renewTime"] == "2026-01-01T00:00:00.000000Z"
        assert first["leaseTransitions"] == 0
        clock.seconds = 3
        await some_rounds()
        second = await lease(cluster)
        assert second["renewTime"] == "2026-01-01T00:00:03.000000Z"
        assert second["acquireTime"] == first["acquireTime"]
        assert second["leaseTransitions"] == 0
        assert a.election.leader == "a"
        await a.stop()


async def test_a_successor_takes_over_at_once_from_one_that_stops():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        b = Candidate(cluster.client, "b", clock, leaders)
        await some_rounds()
        assert leaders == ["a"]
        await a.stop()
        assert leaders == []
        assert (await lease(cluster)).get("holderIdentity", "") in ("", "b")
        await until(lambda: leaders == ["b"])
        assert clock.seconds == 0
        spec = await lease(cluster)
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
        await b.stop()


async def test_a_successor_waits_for_the_lease_of_one_that_crashed():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        a.client.cut = True
        await a.stop()
        b = Candidate(cluster.client, "b", clock, leaders)
        await some_rounds()
        clock.seconds = 14.9
        await some_rounds()
        assert leaders == []
        clock.seconds = 15.1
        await until(lambda: leaders == ["b"])
        assert (await lease(cluster))["leaseTransitions"] == 1
        await b.stop()


async def test_the_clock_of_the_holder_does_not_matter():
    ahead, leaders = Clock(), []
    ahead.seconds = 100_000
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", ahead, leaders)
        await until(lambda: leaders == ["a"])
        a.client.cut = True
        await a.stop()
        clock = Clock()
        b = Candidate(cluster.client, "b", clock, leaders)
        await some_rounds()
        assert leaders == []
        clock.seconds = 15.1
        await until(lambda: leaders == ["b"])
        await b.stop()


async def test_who_is_cut_off_stops_before_anybody_else_starts():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        b = Candidate(cluster.client, "b", clock, leaders)
        await some_rounds()
        a.client.cut = True
        await some_rounds()
        clock.seconds = 9.9
        await some_rounds()
        assert leaders == ["a"]
        clock.seconds = 10.1
        with pytest.raises(LeadershipLost):
            await a.task
        await some_rounds()
        assert leaders == []
        clock.seconds = 15.1
        await until(lambda: leaders == ["b"])
        await b.stop()


async def test_a_short_interruption_is_survived():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        a.client.cut = True
        clock.seconds = 8
        await some_rounds()
        a.client.cut = False
        await some_rounds()
        clock.seconds = 17
        await some_rounds()
        assert leaders == ["a"]
        await a.stop()


async def test_who_stood_still_past_the_deadline_tries_once_more_before_the_lease_ends():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders, retry_period=1)
        await until(lambda: leaders == ["a"])
        # Nothing runs meanwhile, and so nothing is renewed.
        clock.seconds = 11
        await asyncio.sleep(1.2)
        assert leaders == ["a"]
        assert (await lease(cluster))["renewTime"] == "2026-01-01T00:00:11.000000Z"
        clock.seconds = 25.5
        with pytest.raises(LeadershipLost):
            await a.task
        assert leaders == []


async def test_a_server_that_does_not_answer_is_as_good_as_none():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders, renew_deadline=0.05)
        await until(lambda: leaders == ["a"])

        async def never(*args, **kwargs):
            await asyncio.get_running_loop().create_future()

        a.client.update = a.client.get = never
        with pytest.raises(LeadershipLost):
            await a.task
        assert leaders == []


async def test_who_finds_somebody_else_in_the_lease_stops():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        taken = {"spec": {"holderIdentity": "b"}}
        await cluster.client.patch(LEASES, "dray", taken, namespace="kube-system")
        with pytest.raises(LeadershipLost):
            await a.task
        assert leaders == []
        assert (await lease(cluster))["holderIdentity"] == "b"


async def test_others_may_write_to_the_lease_and_even_delete_it():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)
        await until(lambda: leaders == ["a"])
        body = {"metadata": {"annotations": {"x": "y"}}}
        await cluster.client.patch(LEASES, "dray", body, namespace="kube-system")
        await some_rounds()
        await cluster.client.delete(LEASES, "dray", namespace="kube-system")
        await some_rounds()
        assert leaders == ["a"]
        assert (await lease(cluster))["holderIdentity"] == "a"
        await a.stop()


async def test_of_many_at_once_never_two_lead():
    clock, leaders, most = Clock(), [], []

    class Watched(list):
        def append(self, each):
            super().append(each)
            most.append(len(self))

    leaders = Watched()
    async with LocalCluster() as cluster:
        candidates = [Candidate(cluster.client, f"c{number}", clock, leaders) for number in range(5)]
        for _ in range(5):
            await until(lambda: leaders)
            leading = next(each for each in candidates if each.identity == leaders[0])
            candidates.remove(leading)
            await leading.stop()
            clock.seconds += 1
        assert max(most) == 1
        assert len(most) == 5
        assert (await lease(cluster))["leaseTransitions"] == 4


async def test_the_end_of_the_work_is_the_end_and_gives_the_lease_back():
    async with LocalCluster() as cluster:

        async def nothing():
            pass

        async def failing():
            raise RuntimeError("broken")

        election = LeaderElection(cluster.client, "kube-system", "dray", "a")
        await election.lead(nothing)
        assert (await lease(cluster)).get("holderIdentity", "") == ""
        with pytest.raises(RuntimeError, match="broken"):
            await election.lead(failing)
        assert (await lease(cluster)).get("holderIdentity", "") == ""


async def test_the_lease_is_kept_while_the_work_comes_to_its_end():
    async with LocalCluster() as cluster:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def slow():
            started.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await may_end.wait()

        task = asyncio.create_task(
            LeaderElection(cluster.client, "kube-system", "dray", "a", retry_period=RETRY).lead(slow)
        )
        await started.wait()
        task.cancel()
        before = (await lease(cluster))["renewTime"]
        await some_rounds()
        spec = await lease(cluster)
        assert spec["holderIdentity"] == "a"
        assert spec["renewTime"] > before
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await lease(cluster)).get("holderIdentity", "") == ""


async def test_periods_that_cannot_be_kept_are_refused():
    async with LocalCluster() as cluster:
        with pytest.raises(ValueError):
            LeaderElection(cluster.client, "kube-system", "dray", "a", lease_seconds=10, renew_deadline=10)


async def test_a_candidate_waits_for_a_server_that_refuses():
    clock, leaders = Clock(), []
    async with LocalCluster() as cluster:
        a = Candidate(cluster.client, "a", clock, leaders)

        async def refuse(*args, **kwargs):
            raise ApiError(503, "ServiceUnavailable", "starting")

        a.client.get = refuse
        await some_rounds()
        assert leaders == []
        del a.client.get
        await until(lambda: leaders == ["a"])
        await a.stop()
