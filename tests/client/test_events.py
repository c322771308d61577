"""Events are written at once, unless many come while there is something better to do."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from dray.client import events
from dray.client.events import EventRecorder

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}


class Written:
    """A client that takes down what is created."""

    def __init__(self):
        self.messages = []

    async def create(self, kind, body, *, options):
        self.messages.append(body["message"])


@asynccontextmanager
async def recording():
    client = Written()
    recorder = EventRecorder(client, "test")
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder, client.messages
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def record(recorder, count, word="m"):
    for number in range(count):
        recorder.normal(POD, "Reason", f"{word} {number}")


@pytest.fixture
def computing(monkeypatch):
    """As if the process did nothing but compute."""
    monkeypatch.setattr(events, "process_time", events.monotonic)


async def soon(condition, within=5.0):
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_few_are_written_at_once_however_busy_it_is(computing):
    async def run():
        async with recording() as (recorder, messages):
            record(recorder, 5)
            await asyncio.sleep(0.01)
            assert len(messages) == 5

    asyncio.run(run())


def test_many_wait_while_the_process_computes_but_not_forever(computing, monkeypatch):
    monkeypatch.setattr(events, "_PATIENCE", 0.5)

    async def run():
        async with recording() as (recorder, messages):
            record(recorder, 200)
            await asyncio.sleep(0.2)
            assert len(messages) < 100
            await soon(lambda: len(messages) == 200)

    asyncio.run(run())


def test_many_are_written_soon_if_there_is_nothing_else_to_do(monkeypatch):
    monkeypatch.setattr(events, "process_time", lambda: 0.0)

    async def run():
        async with recording() as (recorder, messages):
            record(recorder, 200)
            await soon(lambda: len(messages) == 200)
            assert messages == [f"m {number}" for number in range(200)]

    asyncio.run(run())


def test_at_the_end_nothing_waits(computing):
    async def run():
        async with recording() as (recorder, messages):
            record(recorder, 300)
            await asyncio.wait_for(recorder.written(), 2)
            assert len(messages) == 300

    asyncio.run(run())
