"""Probes of a running container: startup first, then readiness and liveness side by side, for as long as it runs.

A probe that fails as often in a row as its threshold says changes the container: readiness makes it unready, liveness
and startup end it, and its restart policy decides what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dray.api.objects import Object, mapping

Check = Callable[[Object], Awaitable[str | None]]
"""Runs a handler. Returns what went wrong, or None."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Probes of a container; `started` and `ready` are called on changes, `failed` with the kind and the failure."""

    container: Object
    check: Check
    started: Callable[[], None]
    ready: Callable[[bool], None]
    failed: Callable[[str, str], None]

    async def run(self) -> str:
        """Runs the probes until startup or liveness fails, and returns which; cancel it when the container ends."""
        startup = mapping(self.container.get("startupProbe"))
        if startup and not await self._succeeds(startup):
            return "startup"
        self.started()
        readiness = asyncio.create_task(self._readiness())
        try:
            await self._fails(mapping(self.container.get("livenessProbe")))
        finally:
            readiness.cancel()
            await asyncio.gather(readiness, return_exceptions=True)
        return "liveness"

    async def _succeeds(self, probe: Object) -> bool:
        failures = 0
        await asyncio.sleep(_seconds(probe, "initialDelaySeconds", 0))
        while failures < _count(probe, "failureThreshold", 3):
            if await self._once(probe, "Startup"):
                return True
            failures += 1
            await asyncio.sleep(_seconds(probe, "periodSeconds", 10))
        return False

    async def _fails(self, probe: Object) -> None:
        if not probe:
            await asyncio.Event().wait()
        failures = 0
        await asyncio.sleep(_seconds(probe, "initialDelaySeconds", 0))
        while failures < _count(probe, "failureThreshold", 3):
            failures = 0 if await self._once(probe, "Liveness") else failures + 1
            if failures < _count(probe, "failureThreshold", 3):
                await asyncio.sleep(_seconds(probe, "periodSeconds", 10))

    async def run_readiness(self, *, ready: bool) -> None:
        """Runs only the readiness probe, while the container is being stopped; until it is cancelled."""
        if mapping(self.container.get("readinessProbe")):
            await self._readiness(ready)

    async def _readiness(self, ready: bool = False) -> None:
        probe = mapping(self.container.get("readinessProbe"))
        if not probe:
            self.ready(True)
            return
        in_row = 0
        await asyncio.sleep(_seconds(probe, "initialDelaySeconds", 0))
        while True:
            good = await self._once(probe, "Readiness")
            in_row = in_row + 1 if good != ready else 0
            needed = _count(probe, "successThreshold", 1) if good else _count(probe, "failureThreshold", 3)
            if good != ready and in_row >= needed:
                ready, in_row = good, 0
                self.ready(ready)
            await asyncio.sleep(_seconds(probe, "periodSeconds", 10))

    async def _once(self, probe: Object, kind: str) -> bool:
        limit = _seconds(probe, "timeoutSeconds", 1)
        try:
            async with asyncio.timeout(limit):
                problem = await self.check(probe)
        except TimeoutError:
            problem = f"no answer within {limit:g} s"
        if problem is not None:
            self.failed(kind, problem)
        return problem is None


def _seconds(probe: Object, name: str, default: float) -> float:
    return float(probe.get(name) or default)


def _count(probe: Object, name: str, default: int) -> int:
    return int(probe.get(name) or default)
