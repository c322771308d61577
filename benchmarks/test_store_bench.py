"""What the store and the way to it cost: the bounds are those the project promises; figures go to results.json."""

import asyncio
from itertools import count

import pytest

from dray.client.api import ApiClient
from dray.client.interface import GroupVersionResource
from dray.server.inprocess import InProcessTransport
from dray.server.requests import Response
from dray.store.memory import MemoryStore
from dray.store.sqlite import SqliteStore

DOCUMENT = b'{"kind":"ResourceClaim","metadata":{"name":"a","resourceVersion":"%d"},"spec":"' + b"x" * 1300 + b'"}'
# Calls measured together, so that starting the loop does not count.
BATCH = 100


def encode(revision):
    return DOCUMENT % revision


@pytest.fixture(params=["memory", "durable", "fsync"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path, fsync=request.param == "fsync")


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


async def fill(store, number):
    for start in range(0, number, 1000):
        await asyncio.gather(
            *(store.create(f"/g/claims/ns/{each}", encode) for each in range(start, min(start + 1000, number)))
        )
    await store.compact(store.revision)


def test_update_one_after_the_other(benchmark, store, runner):
    runner.run(fill(store, 1000))
    keys = count()

    async def update():
        for _ in range(BATCH):
            await store.update(f"/g/claims/ns/{next(keys) % 1000}", encode)

    benchmark(lambda: runner.run(update()))
    benchmark.extra_info["µs"] = benchmark.stats["median"] / BATCH * 1e6
    assert benchmark.stats["min"] / BATCH < 150e-6 or (getattr(store, "_journal", None) and store._journal._fsync)
    runner.run(store.close())


def test_update_64_at_once(benchmark, store, runner):
    runner.run(fill(store, 64))

    async def update():
        await asyncio.gather(*(store.update(f"/g/claims/ns/{each}", encode) for each in range(64)))

    benchmark(lambda: runner.run(update()))
    benchmark.extra_info["µs"] = benchmark.stats["median"] / 64 * 1e6
    runner.run(store.close())


def test_event_to_1000_watchers(benchmark, store, runner):
    """Until the last of them has it, the write included."""
    runner.run(fill(store, 1))
    watches = [store.watch("/g/claims/", after=store.revision) for _ in range(1000)]

    async def tell():
        readers = [asyncio.ensure_future(anext(watch)) for watch in watches]
        await asyncio.sleep(0)
        await store.update("/g/claims/ns/0", encode)
        await asyncio.gather(*readers)

    benchmark(lambda: runner.run(tell()))
    assert benchmark.stats["min"] < 100e-3
    runner.run(store.close())


def test_list_10000(benchmark, runner):
    store = MemoryStore()
    runner.run(fill(store, 10_000))
    assert len(benchmark(lambda: store.list("/g/claims/")).records) == 10_000
    assert benchmark.stats["min"] < 50e-3


def test_list_10000_in_pages_of_the_past(benchmark, runner):
    store = MemoryStore()
    runner.run(fill(store, 10_000))
    revision = store.revision

    async def change():
        for each in range(1000):
            await store.update(f"/g/claims/ns/{each}", encode)

    def pages():
        after, number = "", 0
        while True:
            page = store.list("/g/claims/", limit=500, after=after, revision=revision)
            number += len(page.records)
            if not page.remaining:
                return number
            after = page.records[-1].key

    runner.run(change())
    assert benchmark(pages) == 10_000


def test_open_10000_with_10000_events(benchmark, tmp_path, runner):
    async def prepare():
        store = SqliteStore(tmp_path)
        await fill(store, 10_000)
        for start in range(0, 10_000, 1000):
            await asyncio.gather(*(store.update(f"/g/claims/ns/{start + each}", encode) for each in range(1000)))
        await store.close()

    async def reopen():
        store = SqliteStore(tmp_path)
        assert store.list("/", limit=1).remaining == 9_999
        await store.close()

    runner.run(prepare())
    benchmark.pedantic(lambda: runner.run(reopen()), rounds=5)
    assert benchmark.stats["min"] < 1


def test_request_in_process(benchmark, runner):
    """The client and the transport alone: the application answers with the document at once."""
    document = DOCUMENT % 1
    claims = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims")
    body = {"metadata": {"name": "a", "namespace": "ns"}, "spec": "x" * 1300}

    class Application:
        async def answer(self, request):
            return Response(200, document)

    client = ApiClient(InProcessTransport(Application()))

    async def update():
        for _ in range(BATCH):
            await client.update(claims, body)

    benchmark(lambda: runner.run(update()))
    benchmark.extra_info["µs"] = benchmark.stats["median"] / BATCH * 1e6
    assert benchmark.stats["min"] / BATCH < 60e-6
