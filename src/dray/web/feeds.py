"""Feeds: the documents of views as streams of frames, shared by all viewers that see the same.

A feed has a `Source`, which makes a snapshot and then changes. A frame is an encoded server-sent event, encoded once
however many viewers there are. A viewer that cannot keep up misses changes and gets a snapshot again. A feed without
viewers ends after a while: whoever loads the page again finds it. Of such feeds few are kept, because each viewer can
ask for many documents, one after the other. Two documents are made at a time, and one of those that a viewer asked for
first: the documents of one viewer do not hold up those of others.

A source is made in a thread, because it reads thousands of objects and the event loop has others to serve. Changes of
the model that come meanwhile are taken afterwards, in order. A source that is outdated is replaced in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from dray.api.objects import Object
from dray.client.cache import Change
from dray.process.tasks import end_tasks
from dray.web.merge_patch import difference
from dray.web.model import Model
from dray.web.turns import Turns

_KEPT_FRAMES: Final = 32
_UNSEEN_SECONDS: Final = 60.0
_MOST_UNSEEN: Final = 8
_AT_ONCE: Final = 2
_RENEWAL_SECONDS: Final = 2.0
"""The least time between two sources of a feed."""
_REST: Final = 20
"""After a document, the feed waits this many times the processor time that it took: it has a twentieth of a core. The
time of a clock would be long on a machine that has much to do."""
_LONGEST_REST: Final = 30.0
_encode: Final = msgspec.json.Encoder().encode
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class Source(Protocol):
    """`take` is told of changes of the model as they come; the other two are called by the feed, seldom.

    `change` gives what changed since it was called last, and `snapshot` everything as of the last call of `change`.
    """

    @property
    def is_outdated(self) -> bool:
        """Whether so much is different that the feed should make a new source, and send its snapshot."""
        ...

    @property
    def in_thread(self) -> bool:
        """Whether `change` may run in a thread, while `take` is called."""
        ...

    def take(self, kind: str, change: Change) -> None: ...

    def change(self) -> Any | None:
        """JSON for the viewer; None if there is no change for them."""
        ...

    def snapshot(self) -> Any: ...


class DerivedSource:
    """Makes the whole document anew, and sends what is different as a merge patch."""

    is_outdated = False
    in_thread = True

    def __init__(self, derive: Callable[[], Object]) -> None:
        self._derive = derive
        self._document = derive()

    def take(self, kind: str, change: Change) -> None:
        pass

    def change(self) -> Any | None:
        before, self._document = self._document, self._derive()
        return difference(before, self._document)

    def snapshot(self) -> Any:
        return self._document


class Feed:
    def __init__(
        self,
        make: Callable[[], Source],
        model: Model,
        reads: Sequence[str],
        interval: float,
        longest_quiet: float,
        turn: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """Whoever makes a document takes a `turn`."""
        self._make = make
        self._source: Source | None = None
        self._missed: list[tuple[str, Change]] | None = None
        """Changes of the model while a source is made."""
        self._made = 0.0
        self._took = 0.0
        """Seconds of a processor."""
        self._turn = turn
        self._model = model
        self._reads = frozenset(reads)
        self._interval = interval
        self._longest_quiet = longest_quiet
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        self._version = 0
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_FRAMES)
        self._snapshot: tuple[int, bytes] = (0, b"")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Feed:
        """Returns when there is a snapshot."""
        self._model.listen(self._take)
        try:
            async with self._turn():
                self._snapshot = 0, await self._renew()
        except BaseException:
            self._model.forget(self._take)
            raise
        self._task = asyncio.create_task(self._run(), name="page: feed")
        return self

    async def frames(self, seen: int | None, seconds: float) -> tuple[int, list[bytes]]:
        """Returns frames after the version that was seen, and their version; waits at most so long for some."""
        if seen == self._version and self._task is not None and not self._task.done():
            news = self._news
            try:
                async with asyncio.timeout(seconds):
                    await news.wait()
            except TimeoutError:
                return self._version, []
        if seen is None or not self._frames or self._frames[0][0] > seen + 1:
            return self._version, [] if seen == self._version else [self._whole()]
        return self._version, [frame for version, frame in self._frames if version > seen]

    async def close(self) -> None:
        self._model.forget(self._take)
        if self._task is not None:
            await end_tasks([self._task])

    def _take(self, kind: str, change: Change) -> None:
        if kind not in self._reads:
            return
        if self._missed is not None:
            self._missed.append((kind, change))
        elif self._source is not None:
            self._source.take(kind, change)
        self._changed.set()

    async def _renew(self) -> bytes:
        """Makes a new source; returns its snapshot as a frame."""
        missed: list[tuple[str, Change]] = []
        self._missed, self._made = missed, time.monotonic()

        def prepare() -> tuple[Source, bytes]:
            made = self._make()
            return made, _frame("snapshot", made.snapshot())

        try:
            made, whole = await asyncio.to_thread(self._timed, prepare)
        finally:
            self._missed = None
        self._source = made
        for kind, change in missed:
            made.take(kind, change)
        return whole

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._longest_quiet):
                    await self._changed.wait()
            except TimeoutError:
                # Documents may show the time or measures.
                pass
            self._changed.clear()
            async with self._turn():
                self._took = 0.0
                try:
                    await self._advance()
                except Exception:
                    _logger.exception("a view of the page cannot be made")
            # What takes long is made less often.
            await asyncio.sleep(max(self._interval, min(_REST * self._took, _LONGEST_REST)))

    async def _advance(self) -> None:
        source = self._source
        assert source is not None
        if not source.is_outdated:
            in_thread = source.in_thread
            change = await asyncio.to_thread(self._timed, source.change) if in_thread else self._timed(source.change)
            if change is not None:
                self._publish(_frame("change", change))
            return
        # It is looked at again soon, also if this is too early or fails.
        self._changed.set()
        if time.monotonic() - self._made >= _RENEWAL_SECONDS:
            whole = await self._renew()
            self._publish(whole)
            self._snapshot = self._version, whole

    def _timed(self, work: Callable[[], T]) -> T:
        began = time.thread_time()
        try:
            return work()
        finally:
            self._took += time.thread_time() - began

    def _publish(self, frame: bytes) -> None:
        self._version += 1
        self._frames.append((self._version, frame))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _whole(self) -> bytes:
        if self._snapshot[0] != self._version:
            assert self._source is not None
            self._snapshot = self._version, _frame("snapshot", self._source.snapshot())
        return self._snapshot[1]


@dataclass(slots=True)
class _Open:
    feed: asyncio.Task[Feed]
    viewers: int = 0
    ending: asyncio.TimerHandle | None = None


class Feeds:
    def __init__(self) -> None:
        self.turns = Turns(_AT_ONCE)
        self._open: dict[Hashable, _Open] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, Feed]]) -> Feed:
        """The feed under a key, made if there is none. Whoever opens it closes it, also if this raises."""
        entry = self._open.get(key)
        if entry is None:
            entry = self._open[key] = _Open(asyncio.create_task(make(), name="page: make a feed"))
        entry.viewers += 1
        if entry.ending is not None:
            entry.ending.cancel()
            entry.ending = None
        # A viewer who leaves meanwhile does not keep others from it.
        return await asyncio.shield(entry.feed)

    def close(self, key: Hashable) -> None:
        # The first of those without viewers were left longest ago.
        entry = self._open[key] = self._open.pop(key)
        entry.viewers -= 1
        if not entry.viewers:
            failed = entry.feed.done() and (entry.feed.cancelled() or entry.feed.exception() is not None)
            seconds = 0.0 if failed else _UNSEEN_SECONDS
            entry.ending = asyncio.get_running_loop().call_later(seconds, self._end, key)
        unseen = [key for key, each in self._open.items() if not each.viewers]
        for each in unseen[: max(0, len(unseen) - _MOST_UNSEEN)]:
            self._end(each)

    async def end(self) -> None:
        """Closes all feeds."""
        for key in list(self._open):
            self._end(key)
        await asyncio.gather(*self._closing)

    def _end(self, key: Hashable) -> None:
        entry = self._open.pop(key)
        if entry.ending is not None:
            entry.ending.cancel()
        task = asyncio.create_task(_close(entry.feed), name="page: close a feed")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(made: asyncio.Task[Feed]) -> None:
    # A thread cannot be interrupted: what it makes is waited for.
    [found] = await asyncio.gather(made, return_exceptions=True)
    if isinstance(found, Feed):
        await found.close()


def _frame(event: str, document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    # JSON has no line breaks outside of strings, and escapes them there.
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _encode(document))
