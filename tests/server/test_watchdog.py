"""A task that waits for too long gets a TimeoutError, and nobody else does."""

import asyncio

import pytest

from dray.server.watchdog import Watchdog


async def wait(watchdog: Watchdog, seconds: float) -> str:
    with watchdog:
        await asyncio.sleep(seconds)
    return "done"


async def test_what_takes_too_long_is_ended() -> None:
    watchdog = Watchdog(0.05)
    slow, quick = asyncio.ensure_future(wait(watchdog, 10)), asyncio.ensure_future(wait(watchdog, 0.01))
    with pytest.raises(TimeoutError):
        await slow
    assert await quick == "done"
    assert not slow.cancelled()


async def test_every_block_counts_for_itself() -> None:
    watchdog = Watchdog(0.1)
    for _ in range(4):
        assert await wait(watchdog, 0.04) == "done"


async def test_the_task_goes_on_after_it() -> None:
    with pytest.raises(TimeoutError):
        await wait(Watchdog(0.02), 10)
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_stays_one() -> None:
    task = asyncio.ensure_future(wait(Watchdog(10), 10))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_goes_through() -> None:
    with pytest.raises(KeyError), Watchdog(10):
        raise KeyError("x")
