"""The environment of controllers, and the workers that run their reconcilers.

A controller is made from an `Environment`: it takes the informers it reads, adds handlers that put keys into the queue
of its `Workers`, and has a `run`. Its `reconcile` gets a key, reads the present, and makes one thing true: nothing it
remembers matters, so it may be run twice, by two processes, or after a crash in the middle. Raising means again later,
the later the more often it failed; a number is when to look again without having failed. A key that asks for another
look within a second, again and again, waits longer each time, and one that is added without end is looked at a few
times a second: a reconciler that makes no progress costs little, and never keeps others from their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from dray.api.catalogue import KINDS
from dray.api.gates import ALL_GATES, FeatureGates
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay
from dray.client.errors import ClientError, Conflict, NotFound
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.client.queue import Stopped, WorkQueue
from dray.controllers.notifications.options import NO_NOTIFICATIONS, NotificationOptions

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]

# Whoever asks to come again sooner than this is not waiting for a time, and may be waiting for nothing.
_SOON: Final = 1.0
_LONGEST_WAIT: Final = 10.0
# As often a key must fail by a mistake of ours before it is told where users look.
_FOR_GOOD: Final = 3
# As often may one key be looked at in a period; after that it waits for a moment each time.
_PERIOD: Final = 10.0
_OFTEN: Final = 500
_MOMENT: Final = 0.25
_logger = logging.getLogger("dray.controllers")


@dataclass(frozen=True, slots=True)
class RootCertificate:
    """The certificate authority that pods trust, as PEM; one that was `given` replaces what namespaces have."""

    text: str = ""
    given: bool = False


@dataclass(slots=True)
class Environment:
    client: ApiClient
    informers: Informers
    events: EventRecorder
    time: TimeOfDay = field(default_factory=SystemTime)
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    gates: FeatureGates = ALL_GATES
    root: RootCertificate = RootCertificate()
    notifications: NotificationOptions = NO_NOTIFICATIONS

    def workers(self, name: str, reconcile: Reconcile[K], *, called: Callable[[K], str], count: int = 8) -> Workers[K]:
        return Workers(name, reconcile, called=called, count=count, failed=self._failed)

    async def _failed(self, name: str, called: str, error: Exception) -> None:
        """Sends an event about an object on which a controller fails repeatedly."""
        kind, _, place = called.partition(" ")
        namespace, _, object_name = place.rpartition("/")
        version = next((known.version(known.storage) for known in KINDS if known.name == kind), None)
        if version is None:
            return
        with suppress(ClientError):
            about = await self.client.get(version, object_name, namespace=namespace)
            text = f"{name} fails on this object and retries less and less often: {type(error).__name__}: {error}"
            self.events.warning(about, "ReconcileError", text)


class Controller(Protocol):
    async def run(self) -> None:
        """Runs until it is cancelled. The informers have synced before."""
        ...


class QueueController(Generic[K]):
    """A controller with one work queue, and what it takes to act and to say so."""

    _workers: Workers[K]

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        self._time = environment.time

    async def run(self) -> None:
        await self._workers.run()


class Workers(Generic[K]):
    """A work queue and the tasks that empty it."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        called: Callable[[K], str],
        count: int = 8,
        failed: Callable[[str, str, Exception], Awaitable[None]] | None = None,
    ) -> None:
        """Takes functions for keys: `called` names a key for logs, `failed` is called when a key keeps failing."""
        self.name = name
        self._failed = failed
        self._called = called
        self._throttled = ThrottledLog(_logger)
        self.queue: WorkQueue[K] = WorkQueue()
        self._reconcile = reconcile
        self._count = count
        self._looks: dict[K, int] = {}
        """Number of reconciliations of each key in the current period."""
        self._period_ends = 0.0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._work(), name=f"{self.name} {number}")

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                key = await self.queue.get()
            except Stopped:
                return
            task.set_name(f"{self.name}: {self._called(key)}")
            try:
                if self._is_too_often(key):
                    self.queue.add_after(key, _MOMENT)
                else:
                    await self._attempt(key)
            finally:
                self.queue.done(key)
            # Neither the queue nor a reconciler that has nothing to do needs to wait for anything.
            await asyncio.sleep(0)

    def _is_too_often(self, key: K) -> bool:
        now = asyncio.get_running_loop().time()
        if now > self._period_ends:
            self._looks.clear()
            self._period_ends = now + _PERIOD
        looks = self._looks[key] = self._looks.get(key, 0) + 1
        if looks == _OFTEN:
            _logger.warning("%s: %s changes all the time, so it is processed less often", self.name, self._called(key))
        # Every other time it comes from the delay, and is due.
        return looks > _OFTEN and looks % 2 == 1

    async def _attempt(self, key: K) -> None:
        try:
            again = await self._reconcile(key)
        except ClientError as error:
            # Losing a race is ordinary: the other write comes by watch, or the next attempt reads it.
            if not isinstance(error, Conflict | NotFound):
                self._throttled.warning(cause_of(error), "%s: %s: %s", self.name, self._called(key), error)
            self.queue.add_failed(key)
        except Exception as error:
            _logger.exception("%s: %s failed", self.name, self._called(key))
            self.queue.add_failed(key)
            if self._failed is not None and self.queue.failures(key) == _FOR_GOOD:
                await self._failed(self.name, self._called(key), error)
        else:
            if again is None:
                self.queue.forget(key)
            elif again >= _SOON:
                self.queue.forget(key)
                self.queue.add_after(key, again)
            else:
                self.queue.add_failed(key, at_least=again, at_most=_LONGEST_WAIT)


def named(kind: str) -> Callable[[str | tuple[str, str]], str]:
    """Returns a function that names queue keys for logs: `Pod default/p`, or `Node n` for kinds without a namespace."""

    def called(key: str | tuple[str, str]) -> str:
        return f"{kind} {key if isinstance(key, str) else '/'.join(part for part in key if part)}"

    return called
