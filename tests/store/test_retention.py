import asyncio

import pytest

from dray.store.interface import Compacted, StoreError
from dray.store.memory import MemoryStore
from dray.store.retention import Retention

from .stores import text


class Turns:
    """A clock that moves one interval at a time, when told."""

    def __init__(self):
        self._gate = asyncio.Semaphore(0)

    async def sleep(self, seconds):
        assert seconds == 10
        await self._gate.acquire()

    async def pass_by(self):
        self._gate.release()
        for _ in range(5):
            await asyncio.sleep(0)


async def write(store, number):
    for _ in range(number):
        await (store.update if store.get("/a") else store.create)("/a", text("x"))


def oldest(store):
    for revision in range(store.revision + 1):
        try:
            store.watch("/", after=revision).close()
        except Compacted:
            continue
        return revision


async def test_the_past_is_kept_for_a_while():
    store, turns = MemoryStore(), Turns()
    task = asyncio.ensure_future(Retention(seconds=30, sleep=turns.sleep).run(store))
    await asyncio.sleep(0)
    seen = []
    for _ in range(6):
        await write(store, 10)
        await turns.pass_by()
        seen.append(oldest(store))
    # What was the newest 30 seconds before.
    assert seen == [0, 0, 0, 10, 20, 30]
    task.cancel()


async def test_but_not_without_limit():
    store, turns = MemoryStore(), Turns()
    task = asyncio.ensure_future(Retention(revisions=25, sleep=turns.sleep).run(store))
    await asyncio.sleep(0)
    await write(store, 100)
    await turns.pass_by()
    assert oldest(store) == 75
    task.cancel()


async def test_failures_are_logged_once(caplog, monkeypatch):
    store, turns = MemoryStore(), Turns()

    async def fail(revision):
        raise StoreError("disk is full")

    monkeypatch.setattr(store, "compact", fail)
    task = asyncio.ensure_future(Retention(sleep=turns.sleep).run(store))
    await turns.pass_by()
    await turns.pass_by()
    assert caplog.text.count("disk is full") == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
