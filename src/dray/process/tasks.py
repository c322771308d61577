"""Tasks that somebody started and has to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels them and returns when they have ended, however they did."""
    ended = list(tasks)
    for each in ended:
        each.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
