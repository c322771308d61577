"""The parts of a control plane, each kept running by itself.

A part that ends or raises is named in the log, in the metrics and in the health of the plane, and is made anew after a
pause that doubles with each failure; the others do not notice. Handlers that it added to shared informers go with it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from dray.client.informer import SUBSCRIBER, Informers
from dray.client.retries import Backoff

Run = Callable[[], Awaitable[None]]
Make = Callable[[CollectorRegistry], Run]
"""Makes a part that can be run once, with its metrics in that registry."""

_BACKOFF: Final = Backoff(first=1.0, longest=300.0)
# A part that worked this long has not failed repeatedly.
_LASTING: Final = 600.0
_logger = logging.getLogger("dray.control_plane")


class Part:
    def __init__(self, name: str, make: Make, informers: Informers, *, changed: Callable[[], None]) -> None:
        self.name = name
        self.problem = ""
        """Why the part does not work at present; empty if it does."""
        self.restarts = 0
        self.metrics = CollectorRegistry()
        self._make = make
        self._informers = informers
        self._changed = changed
        self._context = copy_context()
        self._context.run(SUBSCRIBER.set, name)
        self._run: Run | None = None

    def prepare(self) -> None:
        """Makes the part before the informers start, so that everything it reads is synced when it begins."""
        self.metrics = CollectorRegistry()
        self._run = self._context.run(self._make, self.metrics)

    async def within(self, work: Run) -> None:
        """Runs `work` in the context of the part: handlers that it adds belong to the part."""
        await asyncio.create_task(_awaiting(work), name=self.name, context=self._context)

    async def keep(self) -> None:
        """Runs the part, and restarts it when it ends, until it is cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            problem = await self._attempt()
            failures = 1 if loop.time() - began > _LASTING else failures + 1
            self._informers.forget(self.name)
            self._run = None
            self.problem = problem
            self.restarts += 1
            self._changed()
            pause = _BACKOFF.delay(failures, random.random)
            _logger.error("%s failed and is started again in %.1f s: %s", self.name, pause, problem)
            await asyncio.sleep(pause)
            self.problem = ""
            self._changed()

    async def _attempt(self) -> str:
        """Runs the part once. Returns why it ended."""
        try:
            if self._run is None:
                self.prepare()
            assert self._run is not None
            await self.within(self._run)
        except Exception as error:
            _logger.exception("%s failed", self.name)
            return _text(error)
        return "it ended without being asked to"


async def _awaiting(work: Run) -> None:
    await work()


def _text(error: BaseException) -> str:
    """Returns the text of the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class PartMetrics:
    """Metrics of parts: whether each works, and its restarts; read on collection."""

    def __init__(self, registry: CollectorRegistry, parts: Sequence[Part]) -> None:
        works = Gauge("dray_part_up", "Whether a part of the control plane works.", ("part",), registry=registry)
        again = Gauge("dray_part_restarts", "How often a part was started again.", ("part",), registry=registry)
        for part in parts:
            works.labels(part.name).set_function(partial(_works, part))
            again.labels(part.name).set_function(partial(_restarts, part))


def _works(part: Part) -> float:
    return float(not part.problem)


def _restarts(part: Part) -> float:
    return float(part.restarts)
