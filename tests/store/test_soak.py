"""Steady writes under 100 watchers: memory stays where it is. DRAY_SOAK_SECONDS sets how long."""

import asyncio
import gc
import os
import tracemalloc

from dray.store.interface import Compacted
from dray.store.sqlite import SqliteStore

from .stores import text

SECONDS = float(os.environ.get("DRAY_SOAK_SECONDS", "2"))
KEPT = 500
GROWTH = 300_000


async def read(store, number, seen):
    """Some readers are quick, some leave and come back, some are too slow and start anew."""
    while True:
        watch = store.watch("/" if number % 2 else "/g/p/1", after=store.revision)
        try:
            async for _ in watch:
                seen[number] += 1
                if number % 10 == 3:
                    await asyncio.sleep(0.2)
                if number % 10 == 7 and seen[number] % 100 == 0:
                    break
        except Compacted:
            pass
        finally:
            watch.close()


async def write(store, number):
    key, rounds = f"/g/p/{number}", 0
    while True:
        await store.create(key, text("x" * 200))
        for _ in range(20):
            await store.update(key, text("y" * 500))
        await store.delete(key)
        rounds += 1
        if rounds % 5 == 0:
            await store.compact(store.revision - KEPT)
        await asyncio.sleep(0)


async def measure(store):
    await store.compact(store.revision - KEPT)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def soak(directory):
    store = SqliteStore(directory, buffer=50)
    seen = [0] * 100
    tasks = [asyncio.ensure_future(read(store, number, seen)) for number in range(100)]
    tasks += [asyncio.ensure_future(write(store, number)) for number in range(4)]
    await asyncio.sleep(SECONDS / 2)
    middle = await measure(store)
    await asyncio.sleep(SECONDS / 2)
    end = await measure(store)
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert len(store._watches) == 0
    rows = store._journal._connection.execute("SELECT count(*) FROM log").fetchone()[0]
    await store.close()
    return middle, end, min(seen), rows


def test_memory_stays_flat(tmp_path):
    tracemalloc.start()
    try:
        middle, end, least, rows = asyncio.run(soak(tmp_path))
    finally:
        tracemalloc.stop()
    assert end - middle < GROWTH
    assert least > 0
    # What is kept, and what was written since the last compaction.
    assert rows < KEPT + 1000
