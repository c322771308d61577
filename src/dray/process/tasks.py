"""Tasks that somebody started and has to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

_logger = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels them and returns when they have ended, however they did."""
    ended = list(tasks)
    for each in ended:
        each.cancel()
    await asyncio.gather(*ended, return_exceptions=True)


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
