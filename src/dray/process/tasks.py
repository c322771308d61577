"""Tasks that somebody started and has to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels them and returns when they have ended, however they did."""
    ended = list(tasks)
    for each in ended:
        each.cancel()
    await asyncio.gather(*ended, return_exceptions=True)


async def unless(other: asyncio.Future[Any], work: Coroutine[Any, Any, T]) -> T:
    """Returns what the work gives or raises. If the other task ends before, the work is cancelled, and the error of
    the other task is raised."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, other}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            other.result()
            raise RuntimeError(f"{other} has ended")
    finally:
        await end_tasks([] if task.done() else [task])
    return task.result()


async def lasting(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Runs work until it is cancelled. Work that fails is restarted after a pause."""
    pause = _FIRST_PAUSE
    while True:
        try:
            await work()
            return
        except OSError as error:
            # Such as a lack of descriptors or of space, which may be over soon.
            _logger.error("%s failed and is restarted in %g s: %s", name, pause, error)
        except Exception:
            _logger.exception("%s failed and is restarted in %g s", name, pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
