"""Events are written at once, unless many come while there is something better to do."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from dray.client import events
from dray.client.errors import ApiError
from dray.client.events import EventRecorder

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}


class Written:
    """A client that takes down what is created."""

    def __init__(self):
        self.messages = []

    async def create(self, kind, body):
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


async def soon(condition, within=30.0):
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_few_are_written_at_once_however_busy_it_is(computing):
    async with recording() as (recorder, messages):
        record(recorder, 5)
        await soon(lambda: len(messages) == 5)


async def test_many_wait_while_the_process_computes_but_not_forever(computing, monkeypatch):
    monkeypatch.setattr(events, "_PATIENCE", 0.5)
    async with recording() as (recorder, messages):
        record(recorder, 200)
        await asyncio.sleep(0.2)
        assert len(messages) < 100
        await soon(lambda: len(messages) == 200)


async def test_many_are_written_soon_if_there_is_nothing_else_to_do(monkeypatch):
    monkeypatch.setattr(events, "process_time", lambda: 0.0)
    async with recording() as (recorder, messages):
        record(recorder, 200)
        await soon(lambda: len(messages) == 200)
        assert messages == [f"m {number}" for number in range(200)]


async def test_at_the_end_nothing_waits(computing):
    async with recording() as (recorder, messages):
        record(recorder, 300)
        await asyncio.wait_for(recorder.written(), 30)
        assert len(messages) == 300


def refused(*causes):
    details = {"kind": "events", "causes": [{"reason": cause} for cause in causes]}
    return ApiError(403, "Forbidden", "events is forbidden: no right to create them", details)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (refused(), ["event Reason about Pod default/p is lost: events is forbidden: no right to create them"]),
        (refused("NamespaceTerminating"), []),
    ],
)
async def test_without_the_right_to_write_events_one_line_says_so(caplog, error, lines):
    class Refusing(Written):
        async def create(self, kind, body):
            raise error

    recorder = EventRecorder(Refusing(), "test")
    task = asyncio.create_task(recorder.run())
    record(recorder, 20)
    await recorder.written()
    task.cancel()
    await asyncio.wait([task])
    assert [each.getMessage() for each in caplog.records] == lines


async def test_too_many_events_are_one_line(caplog, monkeypatch):
    monkeypatch.setattr(events, "_QUEUE", 10)
    record(EventRecorder(Written(), "test"), 500)
    assert [each.getMessage() for each in caplog.records] == [
        "event Reason about Pod default/p is dropped: 10 are waiting"
    ]
