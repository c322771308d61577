import asyncio

from dray.client.errors import ApiError, ConnectionFailed
from dray.controllers.environment import Workers, named
from dray.testing.cluster import LocalCluster
from tests.controllers.claim_cluster import pod, start, template
from tests.store.loop import in_loop


async def attempted(workers, keys):
    task = asyncio.create_task(workers.run())
    for key in keys:
        workers.queue.add(key)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])


@in_loop
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


@in_loop
async def test_who_fails_by_mistake_is_named(caplog):
    async def reconcile(name):
        raise KeyError(name)

    await attempted(Workers("things", reconcile, called=named("Node")), ["n"])
    assert caplog.records[0].getMessage() == "things: Node n failed"


@in_loop
async def test_owners_of_claims_are_named(caplog):
    class Broken:
        def __init__(self, client):
            self._client = client

        def __getattr__(self, name):
            return getattr(self._client, name)

        async def create(self, *args, **kwargs):
            raise ConnectionFailed("POST /claims: reset by peer", sent=True)

    async with LocalCluster() as cluster:
        cluster.environment.client = Broken(cluster.client)
        await start(cluster)
        await cluster.create(template("t"))
        await cluster.create(pod("p", gpu="t"))
        while not caplog.records:
            await asyncio.sleep(0.01)
    assert caplog.records[0].getMessage() == "resourceclaim: Pod default/p: POST /claims: reset by peer"
