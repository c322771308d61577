"""The work queue of a reconciler: keys, not events.

A key is in the queue once, however often it is added, and is worked on by one worker at a time: added while it is
being worked on, it comes again afterwards. Keys come out in the order they went in. A key that failed comes back after
a delay that doubles with every failure, until `forget`. Clock and chance are handed in; an event loop is a clock.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar

from dray.client.retries import Backoff, Random

K = TypeVar("K", bound=Hashable)

_BACKOFF: Final = Backoff(first=0.005, longest=300.0, jitter=0.1)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> Timer: ...


class Stopped(Exception):
    """Raised when the queue is stopped and empty."""


class WorkQueue(Generic[K]):
    def __init__(
        self, *, clock: Clock | None = None, backoff: Backoff = _BACKOFF, random: Random = random.random
    ) -> None:
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._backoff = backoff
        self._random = random
        self._ready: deque[K] = deque()
        # Keys in `ready`, and keys that were added while they were being worked on.
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._delayed: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Returns the number of keys that could be worked on now."""
        return len(self._ready)

    def add(self, key: K) -> None:
        if self._stopping or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Adds a key after a delay; of several delays the earliest is used, and `add` does not cancel them."""
        if self._stopping:
            return
        if delay <= 0:
            self.add(key)
            return
        when = self._clock.time() + delay
        planned = self._delayed.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._delayed[key] = (when, self._clock.call_at(when, self._due, key))

    def add_failed(self, key: K, *, at_least: float = 0.0, at_most: float = math.inf) -> None:
        """Adds a failed key after a delay that doubles with each failure."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, max(at_least, min(at_most, self._backoff.delay(failures, self._random))))

    def forget(self, key: K) -> None:
        """Resets the failures of a key that succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Returns the next key; call `done` after it. Raises Stopped once the queue is stopped and empty."""
        while not self._ready:
            if self._stopping:
                raise Stopped
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Pass the wake-up on to another getter.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._push(key)
        elif not self._ready and not self._working:
            self._idle.set()

    def stop(self) -> None:
        """Stops taking keys and drops delayed ones; ready keys are still returned by `get`."""
        self._stopping = True
        for _, timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        while self._getters:
            self._wake_one()

    async def drained(self) -> None:
        """Returns when no key is ready or being worked on."""
        await self._idle.wait()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._idle.clear()
        self._wake_one()

    def _due(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
