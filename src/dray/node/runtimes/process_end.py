"""End of a process that need not be a child of this one, without looking again and again."""

from __future__ import annotations

import asyncio
import os


async def ended(pid: int) -> None:
    """Waits for the end of a process; returns at once if there is no such process."""
    try:
        descriptor = os.pidfd_open(pid) if pid > 0 else -1
    except ProcessLookupError:
        return
    if descriptor < 0:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
