"""Ending of processes that need not be children of this one, however many there are and will be.

A number of a process may be that of another one in the next moment. So each process is opened before it is looked up
again, and only one that is still among those meant is killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from typing import Final

from dray.process.identity import started_at

_logger = logging.getLogger(__name__)
_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_COMPLAINT_SECONDS: Final = 30.0


async def end_all(members: Callable[[], Iterable[int]], *, called: str) -> None:
    """Kills the members again and again until there are none; says so in the log where that takes long.

    A process that hangs in the kernel ends once the kernel lets it.
    """
    pause, complaint = _PAUSE, time.monotonic() + _COMPLAINT_SECONDS
    while alive := {pid for pid in members() if started_at(pid)}:
        kill(alive, members)
        if time.monotonic() > complaint:
            _logger.warning("%s: processes %s do not end although they were killed", called, _listed(alive))
            complaint = time.monotonic() + _COMPLAINT_SECONDS
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def kill(pids: Collection[int], members: Callable[[], Iterable[int]], number: int = signal.SIGKILL) -> None:
    """Sends a signal to those of the processes that are still among the members."""
    with ExitStack() as stack:
        opened: dict[int, int] = {}
        for pid in pids:
            with suppress(OSError):
                opened[pid] = os.pidfd_open(pid)
                stack.callback(os.close, opened[pid])
        for pid in opened.keys() & set(members()):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(opened[pid], number)


def _listed(pids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(pids)[:10])) + (", ..." if len(pids) > 10 else "")
