"""Watches of a store: events go to every watch of a prefix of their key.

An event is one object, shared by all buffers. A buffer takes what was in the log when the watch began and a bounded
number of events on top; when it is full, it is thrown away and the reader gets Compacted. Iteration can be cancelled
and taken up again (`asyncio.wait_for` around `anext`) without losing an event.

Of thousands of readers of one event only some are woken in a turn of the event loop. All of them together would write
the event for their clients before any of it could be sent: that took gigabytes, and others waited.
"""

from __future__ import annotations

from asyncio import Future, Handle, get_running_loop
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from dray.store.interface import Compacted, Event
from dray.store.log import Log

BUFFER: Final = 1000
# Events returned at once, so that other tasks need not wait long.
_MOST_TAKEN: Final = 100
_MOST_BYTES: Final = 256 * 1024
# Readers that are woken in one turn of the event loop.
_MOST_WOKEN: Final = 100
# Kinds and namespaces whose watches are cached.
_MOST_PARENTS: Final = 4096


class BufferedWatch:
    def __init__(self, watches: Watches, log: Log, prefix: str, after: int, limit: int) -> None:
        self.prefix = prefix
        self.after = after
        self._watches = watches
        self._log = log
        self._buffer = deque(log.since(prefix, after))
        self._limit = limit + len(self._buffer)
        self._given = after
        self._end: type[Compacted] | type[StopAsyncIteration] | None = None
        self._waiter: Future[None] | None = None
        self._nudged = False

    @property
    def revision(self) -> int:
        if self._end is not None:
            return self._given
        if self._buffer:
            return max(self._given, self._buffer[0].record.revision - 1)
        return max(self._given, self._log.published)

    def __aiter__(self) -> BufferedWatch:
        return self

    async def __anext__(self) -> Event:
        while not self._buffer:
            await self._wait()
        return self._next()

    async def take(self) -> list[Event]:
        while not self._buffer and not self._nudged:
            await self._wait()
        if self._nudged:
            self._nudged = False
            return []
        taken: list[Event] = []
        size = 0
        while self._buffer and len(taken) < _MOST_TAKEN and size < _MOST_BYTES:
            taken.append(self._next())
            size += len(taken[-1].record.value)
        return taken

    def nudge(self) -> None:
        self._nudged = True
        self.wake()

    async def _wait(self) -> None:
        if self._end is Compacted:
            raise Compacted(f"a reader of {self.prefix} fell behind revision {self._given}")
        if self._end is not None:
            raise StopAsyncIteration
        self._waiter = get_running_loop().create_future()
        await self._waiter

    def _next(self) -> Event:
        event = self._buffer.popleft()
        self._given = event.record.revision
        return event

    def push(self, event: Event) -> None:
        # A watch may begin at a revision that was still pending.
        if event.record.revision <= self.after:
            return
        if len(self._buffer) >= self._limit:
            self.fail()
            return
        self._buffer.append(event)
        if self._waiter is not None and not self._waiter.done():
            self._watches.wake(self)

    def behind(self, revision: int) -> bool:
        return bool(self._buffer) and self._buffer[0].record.revision <= revision

    def fail(self) -> None:
        """Fails the watch: its reader is too far behind."""
        self._stop(Compacted)

    def close(self) -> None:
        self._stop(StopAsyncIteration)

    def _stop(self, end: type[Compacted] | type[StopAsyncIteration]) -> None:
        if self._end is None:
            self._given = self.revision
            self._end = end
            self._watches.remove(self)
        self._buffer.clear()
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Watches:
    """The open watches by prefix: a write looks at each prefix once, however many watches it has."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[BufferedWatch, None]] = {}
        self._odd: dict[str, None] = {}
        """Prefixes that do not end with a slash."""
        self._above: dict[str, list[dict[BufferedWatch, None]]] = {}
        """Watches by the part of a key up to its last slash: those of a prefix of it that ends with a slash."""
        self._woken = 0
        """Number of readers woken in this turn of the event loop."""
        self._to_wake: dict[BufferedWatch, None] = {}
        self._turn: Handle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._by_prefix.values()))

    def open(self, log: Log, prefix: str, after: int, limit: int) -> BufferedWatch:
        watch = BufferedWatch(self, log, prefix, after, limit)
        if prefix not in self._by_prefix:
            self._by_prefix[prefix] = {}
            self._above.clear()
        self._by_prefix[prefix][watch] = None
        if not prefix.endswith("/"):
            self._odd[prefix] = None
        return watch

    def remove(self, watch: BufferedWatch) -> None:
        group = self._by_prefix[watch.prefix]
        del group[watch]
        if not group:
            del self._by_prefix[watch.prefix]
            self._above.clear()
            self._odd.pop(watch.prefix, None)

    def publish(self, events: Iterable[Event]) -> None:
        for event in events:
            for group in self._watching(event.record.key):
                for watch in list(group):
                    watch.push(event)

    def wake(self, watch: BufferedWatch) -> None:
        """Wakes the reader in this turn of the event loop, or in one of the next."""
        if self._woken < _MOST_WOKEN:
            self._woken += 1
            watch.wake()
        else:
            self._to_wake[watch] = None
        if self._turn is None:
            self._turn = get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn, self._woken = None, 0
        waiting = list(islice(self._to_wake, _MOST_WOKEN))
        for watch in waiting:
            del self._to_wake[watch]
            self.wake(watch)

    def _watching(self, key: str) -> list[dict[BufferedWatch, None]]:
        parent = key[: key.rfind("/") + 1]
        above = self._above.get(parent)
        if above is None:
            if len(self._above) >= _MOST_PARENTS:
                self._above.clear()
            ends = [end + 1 for end, letter in enumerate(parent) if letter == "/"]
            above = [self._by_prefix[parent[:end]] for end in ends if parent[:end] in self._by_prefix]
            self._above[parent] = above
        if not self._odd:
            return above
        return [*(self._by_prefix[prefix] for prefix in self._odd if key.startswith(prefix)), *above]

    def fail_behind(self, revision: int) -> None:
        """Fails the watches that have not returned all events up to a revision."""
        for watch in self._all():
            if watch.behind(revision):
                watch.fail()

    def fail_above(self, revision: int) -> None:
        """Fails the watches that began at a revision which was undone."""
        for watch in self._all():
            if watch.after > revision:
                watch.fail()

    def close(self) -> None:
        for watch in self._all():
            watch.close()

    def _all(self) -> list[BufferedWatch]:
        return [watch for group in self._by_prefix.values() for watch in group]
