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


class Contest:
    """Candidates for one lease on one clock; who did not stop yet is stopped at the end."""

    def __init__(self, cluster):
        self.client = cluster.client
        self.clock, self.leaders, self.candidates = Clock(), [], []

    def candidate(self, identity, *, clock=None, **options):
        made = Candidate(self.client, identity, clock or self.clock, self.leaders, **options)
        self.candidates.append(made)
        return made

    async def leader(self, identity="a", **options):
        made = self.candidate(identity, **options)
        await self.led_by(identity)
        return made

    async def led_by(self, identity):
        await until(lambda: self.leaders == [identity])

    async def at(self, seconds):
        """Some rounds after this time has come."""
        self.clock.seconds = seconds
        await some_rounds()

    async def crash(self, leader):
        leader.client.cut = True
        await leader.stop()

    async def lease(self):
        return (await self.client.get(LEASES, "dray", namespace="kube-system"))["spec"]


@pytest.fixture
async def contest():
    async with LocalCluster() as cluster:
        contest = Contest(cluster)
        yield contest
        for each in contest.candidates:
            await each.stop()


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.002)


async def some_rounds():
    await asyncio.sleep(RETRY * 8)


async def test_one_leads_and_the_lease_says_who_and_since_when(contest):
    a = await contest.leader("a")
    first = await contest.lease()
    assert first["holderIdentity"] == "a"
    assert first["leaseDurationSeconds"] == 15
    assert first["acquireTime"] == first["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert first["leaseTransitions"] == 0
    await contest.at(3)
    second = await contest.lease()
    assert second["renewTime"] == "2026-01-01T00:00:03.000000Z"
    assert second["acquireTime"] == first["acquireTime"]
    assert second["leaseTransitions"] == 0
    assert a.election.leader == "a"


async def test_a_successor_takes_over_at_once_from_one_that_stops(contest):
    a = await contest.leader("a")
    contest.candidate("b")
    await some_rounds()
    assert contest.leaders == ["a"]
    await a.stop()
    assert contest.leaders == []
    assert (await contest.lease()).get("holderIdentity", "") in ("", "b")
    await contest.led_by("b")
    assert contest.clock.seconds == 0
    spec = await contest.lease()
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def test_a_successor_waits_for_the_lease_of_one_that_crashed(contest):
    a = await contest.leader("a")
    await contest.crash(a)
    contest.candidate("b")
    await some_rounds()
    await contest.at(14.9)
    assert contest.leaders == []
    contest.clock.seconds = 15.1
    await contest.led_by("b")
    assert (await contest.lease())["leaseTransitions"] == 1


async def test_the_clock_of_the_holder_does_not_matter(contest):
    ahead = Clock()
    ahead.seconds = 100_000
    a = await contest.leader("a", clock=ahead)
    await contest.crash(a)
    contest.candidate("b")
    await some_rounds()
    assert contest.leaders == []
    contest.clock.seconds = 15.1
    await contest.led_by("b")


async def test_who_is_cut_off_stops_before_anybody_else_starts(contest):
    a = await contest.leader("a")
    contest.candidate("b")
    await some_rounds()
    a.client.cut = True
    await some_rounds()
    await contest.at(9.9)
    assert contest.leaders == ["a"]
    contest.clock.seconds = 10.1
    with pytest.raises(LeadershipLost):
        await a.task
    await some_rounds()
    assert contest.leaders == []
    contest.clock.seconds = 15.1
    await contest.led_by("b")


async def test_a_short_interruption_is_survived(contest):
    a = await contest.leader("a")
    a.client.cut = True
    await contest.at(8)
    a.client.cut = False
    await some_rounds()
    await contest.at(17)
    assert contest.leaders == ["a"]


async def test_who_stood_still_past_the_deadline_tries_once_more_before_the_lease_ends(contest):
    a = await contest.leader("a", retry_period=0.3)
    # Nothing runs meanwhile, and so nothing is renewed.
    contest.clock.seconds = 11
    await asyncio.sleep(0.4)
    assert contest.leaders == ["a"]
    assert (await contest.lease())["renewTime"] == "2026-01-01T00:00:11.000000Z"
    contest.clock.seconds = 25.8
    with pytest.raises(LeadershipLost):
        await a.task
    assert contest.leaders == []


async def test_a_server_that_does_not_answer_is_as_good_as_none(contest):
    a = await contest.leader("a", renew_deadline=0.05)

    async def never(*args, **kwargs):
        await asyncio.get_running_loop().create_future()

    a.client.update = a.client.get = never
    with pytest.raises(LeadershipLost):
        await a.task
    assert contest.leaders == []


async def test_who_finds_somebody_else_in_the_lease_stops(contest):
    a = await contest.leader("a")
    taken = {"spec": {"holderIdentity": "b"}}
    await contest.client.patch(LEASES, "dray", taken, namespace="kube-system")
    with pytest.raises(LeadershipLost):
        await a.task
    assert contest.leaders == []
    assert (await contest.lease())["holderIdentity"] == "b"


async def test_others_may_write_to_the_lease_and_even_delete_it(contest):
    await contest.leader("a")
    body = {"metadata": {"annotations": {"x": "y"}}}
    await contest.client.patch(LEASES, "dray", body, namespace="kube-system")
    await some_rounds()
    await contest.client.delete(LEASES, "dray", namespace="kube-system")
    await some_rounds()
    assert contest.leaders == ["a"]
    assert (await contest.lease())["holderIdentity"] == "a"


async def test_of_many_at_once_never_two_lead(contest):
    most = []

    class Watched(list):
        def append(self, each):
            super().append(each)
            most.append(len(self))

    contest.leaders = Watched()
    for number in range(5):
        contest.candidate(f"c{number}")
    for _ in range(5):
        await until(lambda: contest.leaders)
        await next(each for each in contest.candidates if each.identity == contest.leaders[0]).stop()
        contest.clock.seconds += 1
    assert max(most) == 1
    assert len(most) == 5
    assert (await contest.lease())["leaseTransitions"] == 4


async def test_the_end_of_the_work_is_the_end_and_gives_the_lease_back(contest):
    async def nothing():
        pass

    async def failing():
        raise RuntimeError("broken")

    election = LeaderElection(contest.client, "kube-system", "dray", "a")
    await election.lead(nothing)
    assert (await contest.lease()).get("holderIdentity", "") == ""
    with pytest.raises(RuntimeError, match="broken"):
        await election.lead(failing)
    assert (await contest.lease()).get("holderIdentity", "") == ""


async def test_the_lease_is_kept_while_the_work_comes_to_its_end(contest):
    started, may_end = asyncio.Event(), asyncio.Event()

    async def slow():
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await may_end.wait()

    task = asyncio.create_task(
        LeaderElection(contest.client, "kube-system", "dray", "a", retry_period=RETRY).lead(slow)
    )
    await started.wait()
    task.cancel()
    before = (await contest.lease())["renewTime"]
    await some_rounds()
    spec = await contest.lease()
    assert spec["holderIdentity"] == "a"
    assert spec["renewTime"] > before
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await contest.lease()).get("holderIdentity", "") == ""


async def test_periods_that_cannot_be_kept_are_refused(contest):
    with pytest.raises(ValueError):
        LeaderElection(contest.client, "kube-system", "dray", "a", lease_seconds=10, renew_deadline=10)


async def test_a_candidate_waits_for_a_server_that_refuses(contest):
    a = contest.candidate("a")

    async def refuse(*args, **kwargs):
        raise ApiError(503, "ServiceUnavailable", "starting")

    a.client.get = refuse
    await some_rounds()
    assert contest.leaders == []
    del a.client.get
    await contest.led_by("a")
