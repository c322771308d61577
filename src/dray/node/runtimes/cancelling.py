"""Work that is done to its end although its caller is cancelled: a container is started or not, never half."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work to its end, even if the caller is cancelled meanwhile; the cancellation is raised after that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        # Mark the exception as retrieved: the caller was cancelled.
        task.exception()
    raise cancelled
