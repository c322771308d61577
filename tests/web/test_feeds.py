"""Feeds: when a source is replaced, in which thread it is made, and whose turn it is."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from dray.api.objects import Object
from dray.client.cache import Change
from dray.web import feeds
from dray.web.feeds import Feed
from dray.web.model import Listener, Model
from dray.web.turns import Turns


class Told:
    """A model that tells what the test says."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def forget(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    def tell(self, name: str) -> None:
        document: Object = {"metadata": {"name": name}}
        for listener in list(self.listeners):
            listener("pods", Change("ADDED", ("", name), document, None))


class Names:
    """Names of pods; outdated with the name `many`."""

    in_thread = False

    def __init__(self, known: list[str], threads: set[threading.Thread], hold: threading.Event) -> None:
        threads.add(threading.current_thread())
        hold.wait(10)
        self._names = list(known)
        self._new: list[str] = []

    @property
    def is_outdated(self) -> bool:
        return "many" in self._new

    def take(self, kind: str, change: Change) -> None:
        self._new.append(change.key[1])

    def change(self) -> Any | None:
        new, self._new = self._new, []
        self._names += new
        return {"new": new} if new else None

    def snapshot(self) -> Any:
        return {"names": list(self._names)}


async def test_an_outdated_source_is_replaced_in_a_thread_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_RENEWAL_SECONDS", 0.0)
    told, known, hold = Told(), ["a"], threading.Event()
    threads: set[threading.Thread] = set()
    hold.set()
    model: Model = told  # type: ignore[assignment]
    turns = Turns(2)
    feed = Feed(lambda: Names(known, threads, hold), model, ("pods",), 0.01, 30.0, lambda: turns.turn("ann"))
    await feed.start()
    try:
        version, frames = await feed.frames(None, 5)
        assert b'{"names":["a"]}' in frames[0]
        hold.clear()
        known.append("many")
        told.tell("many")
        await asyncio.sleep(0.1)
        # The new source is being made: whoever comes now gets the old snapshot, and what follows.
        assert b'{"names":["a"]}' in (await feed.frames(None, 5))[1][0]
        told.tell("meanwhile")
        hold.set()
        version, frames = await feed.frames(version, 5)
        assert frames == [b'event: snapshot\ndata: {"names":["a","many"]}\n\n']
        version, frames = await feed.frames(version, 5)
        assert frames == [b'event: change\ndata: {"new":["meanwhile"]}\n\n']
        assert threading.main_thread() not in threads
    finally:
        await feed.close()
    assert told.listeners == []


async def test_a_machine_with_much_to_do_does_not_make_a_feed_rest_for_long() -> None:
    class Slow(Names):
        in_thread = True

        def change(self) -> Any | None:
            # Others have the processor.
            time.sleep(0.4)
            return super().change()

    free = threading.Event()
    free.set()
    model, turns = Told(), Turns(2)
    made: Any = model
    feed = await Feed(lambda: Slow([], set(), free), made, ("pods",), 0.01, 30.0, lambda: turns.turn("ann")).start()
    try:
        seen = 0
        async with asyncio.timeout(6):
            for name in ("a", "b", "c"):
                model.tell(name)
                before = seen
                while seen == before:
                    seen, _ = await feed.frames(before, 1.0)
    finally:
        await feed.close()
