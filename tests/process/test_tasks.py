"""Work that is pointless once another task has ended."""

import asyncio

import pytest

from dray.process.tasks import unless


async def failing(error):
    raise error


async def given(value):
    return value


async def test_gives_what_the_work_gives_or_raises():
    other = asyncio.ensure_future(asyncio.Event().wait())
    assert await unless(other, given(7)) == 7
    with pytest.raises(KeyError):
        await unless(other, failing(KeyError("x")))
    assert not other.done()
    other.cancel()


async def test_an_error_of_the_other_task_ends_the_work():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(ValueError, match="broken"):
        await unless(asyncio.ensure_future(failing(ValueError("broken"))), work())
    assert ended


async def test_who_is_cancelled_waits_for_the_end_of_the_work():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    other = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(unless(other, work()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended
    other.cancel()
