"""Stores to test with, and ways to read from them."""

import asyncio
from pathlib import Path

from dray.store.memory import MemoryStore
from dray.store.sqlite import SqliteStore


def text(value):
    return lambda revision: f"{value}@{revision}".encode()


def open_store(kind, directory: Path, **options):
    return MemoryStore(**options) if kind == "memory" else SqliteStore(directory, **options)


def crash(store):
    """What kill -9 leaves: the file, as of the last commit, and no lock."""
    store._closed = True
    store._journal.abandon()


async def take(watch, count):
    """The next events; fails instead of waiting for ever."""
    return [await asyncio.wait_for(anext(watch), 30) for _ in range(count)]


async def drain(watch):
    """Everything that is there now."""
    events = []
    while True:
        try:
            events.append(await asyncio.wait_for(anext(watch), 0.001))
        except TimeoutError:
            return events
