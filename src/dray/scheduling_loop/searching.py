"""Goes on, in a process of its own, with searches for devices that the scheduler gave up undecided.

One at a time, on a snapshot, with a lower priority than the scheduler's. A thread would not do: it holds the
interpreter for 5 ms at each turn, and every read or write of the loop would wait for that. The process is ended when
nobody waits for its answer any more. The answer is a proposal; the scheduler checks it against what is the case then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from dray.allocation import THOROUGH, RejectionKind, diagnosis, pruning
from dray.api.objects import Object
from dray.scheduling.core.searches import FurtherSearch, Outcome
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.scheduler import Scheduler

PROGRAM: Final = "dray.scheduling_loop.search_process"
_LOOK: Final = 0.25
_MOST_SECONDS: Final = 120.0
# These modules are imported lazily elsewhere; the scheduler imports them at the start, not during a decision.
_NEEDED: Final = (diagnosis, pruning)
_logger = logging.getLogger("dray.scheduler")


class Searcher:
    def __init__(self, scheduler: Scheduler, now: Callable[[], float], wake: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._now = now
        self._wake = wake
        self._wanted = asyncio.Event()
        self.limit = THOROUGH

    def wake(self) -> None:
        """Notes that there may be a search to continue."""
        self._wanted.set()

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            search = self._scheduler.further()
            if search is None:
                await self._wanted.wait()
                continue
            outcome = await self._search(search)
            if outcome is not None:
                self._scheduler.searched(search, outcome, self._now())
                self._wake()

    async def _search(self, search: FurtherSearch) -> Outcome | None:
        """Runs a search in a process; returns None if no pod waits for the result any more."""
        options = self._scheduler.options
        question = {
            "snapshot": search.snapshot,
            "gates": sorted(options.gates.enabled),
            "policy": options.policy.name,
            "node": search.node,
            "claims": list(search.claims),
            "limit": self.limit,
        }
        pipe = asyncio.subprocess.PIPE
        try:
            # Nothing is imported from the working directory.
            command = (sys.executable, "-P", "-m", PROGRAM, str(os.getpid()))
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        except OSError as error:
            _logger.warning("a search for devices cannot be started: %s", error)
            return Outcome(reason=self._undecided)
        talk = asyncio.ensure_future(process.communicate(msgspec.json.encode(question)))
        try:
            for _ in range(int(_MOST_SECONDS / _LOOK)):
                done, _ = await asyncio.wait((talk,), timeout=_LOOK)
                if done:
                    return self._read(process.returncode, talk.result()[0])
                if not self._scheduler.waits_for(search):
                    return None
            return Outcome(reason=self._undecided)
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.wait((talk,))

    @property
    def _undecided(self) -> Reason:
        return Reason(Code.UNDECIDED_FOR_GOOD, (f"{self.limit:,}",))

    def _read(self, code: int | None, answer: bytes) -> Outcome:
        try:
            found: Object = msgspec.json.decode(answer)
        except msgspec.DecodeError:
            _logger.warning("a search for devices ended with status %s and no answer", code)
            return Outcome(reason=self._undecided)
        columns = found["columns"]
        if found["kind"] == "allocated":
            return Outcome(tuple(found["results"]), columns=columns)
        reasons = {
            RejectionKind.NO_SOLUTION.value: Reason(Code.CANNOT_ALLOCATE),
            RejectionKind.INVALID_POOLS.value: Reason(Code.INVALID_POOLS),
            RejectionKind.UNDECIDED.value: self._undecided,
        }
        reason = reasons.get(found["kind"]) or Reason(Code.ALLOCATION_ERROR, (found["message"],))
        return Outcome(reason=reason, columns=columns)
