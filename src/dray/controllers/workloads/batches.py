"""Batches of writes: many at once, but never so many that what cannot work is tried five hundred times."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from dray.client.errors import ClientError

T = TypeVar("T")

_AT_ONCE: Final = 32


async def slow_start(action: Callable[[T], Awaitable[object]], items: Sequence[T]) -> None:
    """Runs the work in batches of doubling size; stops after a batch with a failure, and raises it."""
    done, size = 0, 1
    while done < len(items):
        batch = items[done : done + size]
        await all_of(action(item) for item in batch)
        done, size = done + len(batch), min(size * 2, _AT_ONCE)


async def in_batches(action: Callable[[T], Awaitable[object]], items: Sequence[T]) -> None:
    for start in range(0, len(items), _AT_ONCE):
        await all_of(action(item) for item in items[start : start + _AT_ONCE])


async def all_of(actions: Iterable[Awaitable[object]]) -> None:
    """Runs everything concurrently, then raises the first error."""
    results = await asyncio.gather(*actions, return_exceptions=True)
    for result in results:
        if isinstance(result, ClientError):
            raise result
    for result in results:
        if isinstance(result, BaseException):
            raise result
