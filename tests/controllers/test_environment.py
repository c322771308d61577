"""Workers: what fails is named, and a reconciler that makes no progress neither stops the others nor costs much."""

import asyncio
import logging

import pytest

from dray.client.errors import ApiError, ConnectionFailed
from dray.controllers import environment
from dray.controllers.environment import Workers, named
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim_template
from tests.controllers.claims import pod, start
from tests.controllers.clients import Passing


async def attempted(workers, keys):
    task = asyncio.create_task(workers.run())
    for key in keys:
        workers.queue.add(key)
    await asyncio.sleep(0.05)
    while len(workers.queue):
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])


async def test_one_line_for_what_fails_for_all(caplog):
    async def reconcile(key):
        _, name = key
        if name.startswith("q"):
            raise ApiError(500, "InternalError", "no leader")
        raise ConnectionFailed(f"GET /pods/{name}: reset by peer", sent=True, cause="reset by peer")

    workers = Workers("things", reconcile, called=named("Pod"))
    await attempted(workers, [("default", f"{letter}-{number}") for letter in "pq" for number in range(100)])
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "things: Pod default/p-0: GET /pods/p-0: reset by peer",
        "things: Pod default/q-0: no leader",
    ]


async def test_who_fails_by_mistake_is_named(caplog):
    async def reconcile(name):
        raise KeyError(name)

    await attempted(Workers("things", reconcile, called=named("Node")), ["n"])
    assert caplog.records[0].getMessage() == "things: Node n failed"


async def test_owners_of_claims_are_named(caplog):
    class Broken(Passing):
        async def create(self, *args, **kwargs):
            raise ConnectionFailed("POST /claims: reset by peer", sent=True)

    async with LocalCluster() as cluster:
        cluster.environment.client = Broken(cluster.client)
        await start(cluster)
        await cluster.create(claim_template("t"))
        await cluster.create(pod("p", gpu="t"))
        while not caplog.records:
            await asyncio.sleep(0.01)
    assert caplog.records[0].getMessage() == "resourceclaim: Pod default/p: POST /claims: reset by peer"


class Running:
    """Workers that run for the length of the block."""

    def __init__(self, reconcile, count=1):
        self._reconcile, self._count = reconcile, count

    async def __aenter__(self):
        self.workers = Workers("test", self._reconcile, called=str, count=self._count)
        self._task = asyncio.create_task(self.workers.run())
        return self.workers

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.mark.parametrize("again", [0.0, -5.0, 1e-9], ids=["at once", "in the past", "nearly at once"])
async def test_a_reconciler_that_asks_to_come_again_at_once_waits_longer_each_time(again, virtual_time):
    looks = 0

    async def reconcile(key):
        nonlocal looks
        looks += 1
        return again

    async with Running(reconcile) as workers:
        workers.queue.add("key")
        await asyncio.sleep(0.5)
    assert 3 <= looks <= 12


async def test_a_reconciler_that_never_waits_leaves_others_their_turn():
    turns = 0

    async def reconcile(key):
        # Nothing in it awaits, and it is never done.
        workers.queue.add(key)

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    async with Running(reconcile) as workers:
        workers.queue.add("key")
        while turns <= 50:
            await asyncio.sleep(0.01)
    beside.cancel()


async def test_a_key_that_changes_without_end_is_looked_at_less_often(caplog, monkeypatch, virtual_time):
    monkeypatch.setattr(environment, "_OFTEN", 20)
    monkeypatch.setattr(environment, "_MOMENT", 0.05)
    looks = {"hot": 0, "cold": 0}

    async def reconcile(key):
        looks[key] += 1
        if key == "hot":
            workers.queue.add(key)

    with caplog.at_level(logging.WARNING):
        async with Running(reconcile) as workers:
            workers.queue.add("hot")
            await asyncio.sleep(0.5)
            workers.queue.add("cold")
            await asyncio.sleep(0.1)
    assert 22 <= looks["hot"] <= 60
    assert looks["cold"] == 1
    assert [text for text in caplog.messages if "all the time" in text] == [
        "test: hot changes all the time, so it is processed less often"
    ]


async def test_a_look_at_a_time_is_no_failure(virtual_time):
    looks = []

    async def reconcile(key):
        looks.append(workers.queue.failures(key))
        if len(looks) == 1:
            raise ConnectionFailed("away", sent=False)
        return 60.0

    async with Running(reconcile) as workers:
        workers.queue.add("key")
        await asyncio.sleep(0.1)
        assert looks == [0, 1]
        assert workers.queue.failures("key") == 0


async def test_an_object_that_is_failed_on_for_good_is_told_of_where_users_look():
    async with LocalCluster() as cluster:
        cluster.start(cluster.environment.events.run())
        made = await cluster.create(pod("p"))
        tries = 0

        async def reconcile(key):
            nonlocal tries
            tries += 1
            raise ZeroDivisionError("of nobody")

        workers = cluster.environment.workers("things", reconcile, called=named("Pod"))
        cluster.start(workers.run())
        workers.queue.add(("default", "p"))

        async def told():
            return [each for each in await cluster.list("Event") if each["reason"] == "ReconcileError"]

        (event,) = await cluster.eventually(told)
        assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
        assert event["message"] == (
            "things fails on this object and retries less and less often: ZeroDivisionError: of nobody"
        )
        assert tries >= 3
