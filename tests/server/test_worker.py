"""Long requests are worked on beside the loop: others are answered, and nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import time

import msgspec
import pytest

from dray.server import status, worker
from dray.server.requests import Request
from dray.server.worker import AT_ONCE, Worker
from tests.server.api import MAPS, MERGE, config_map


def test_small_work_is_done_at_once_and_long_work_in_a_thread(api):
    here = threading.get_ident()
    assert api.runner.run(Worker().run(AT_ONCE, threading.get_ident)) == here
    assert api.runner.run(Worker().run(AT_ONCE + 1, threading.get_ident)) != here


def test_the_loop_goes_on_meanwhile(api):
    async def both() -> int:
        turns = 0
        long = asyncio.create_task(Worker().run(AT_ONCE + 1, _compute, 0.5))
        while not long.done():
            await asyncio.sleep(0.01)
            turns += 1
        await long
        return turns

    assert api.runner.run(both()) > 5


def _compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_what_the_work_raises_is_raised(api):
    with pytest.raises(ZeroDivisionError):
        api.runner.run(Worker().run(AT_ONCE + 1, lambda: 1 / 0))


def test_there_is_a_limit_on_what_waits(api, monkeypatch):
    monkeypatch.setattr(worker, "_MOST_WAITING", 1)

    async def two() -> None:
        one = Worker()
        first = asyncio.create_task(one.run(AT_ONCE + 1, _compute, 0.1))
        await asyncio.sleep(0)
        with pytest.raises(status.ApiError, match="too many long requests"):
            await one.run(AT_ONCE + 1, _compute, 0.1)
        await first

    api.runner.run(two())


def test_an_object_that_changes_meanwhile_is_worked_on_again(api):
    api.create(MAPS, config_map("m", {"a": "1", "long": "x" * AT_ONCE}))

    async def race() -> tuple[int, int]:
        def patch(body: bytes) -> Request:
            return Request("PATCH", f"{MAPS}/m", "", {"content-type": MERGE}, body)

        many = b",".join(b'"k%d":"v"' % number for number in range(20_000))
        slow = asyncio.create_task(api.server.handle(patch(b'{"data":{"b":"2",%b}}' % many)))
        await asyncio.sleep(0.005)
        quick = await api.server.handle(patch(b'{"data":{"a":"3"}}'))
        return (await slow).code, quick.code

    assert api.runner.run(race()) == (200, 200)
    data = api.get(f"{MAPS}/m")["data"]
    assert (data["a"], data["b"], data["k7"]) == ("3", "2", "v")


def test_an_object_that_changes_meanwhile_is_a_conflict_for_who_named_its_version(api):
    made = api.create(MAPS, config_map("m", {"a": "1"}))
    made["data"] = {f"k{number}": "v" for number in range(20_000)}

    async def race() -> tuple[int, int]:
        body = msgspec.json.encode(made)
        slow = asyncio.create_task(api.server.handle(Request("PUT", f"{MAPS}/m", "", {}, body)))
        await asyncio.sleep(0.005)
        quick = await api.server.handle(
            Request("PATCH", f"{MAPS}/m", "", {"content-type": MERGE}, b'{"data":{"a":"3"}}')
        )
        return (await slow).code, quick.code

    assert api.runner.run(race()) == (409, 200)
    assert api.get(f"{MAPS}/m")["data"] == {"a": "3"}
