"""Threads for work on GPUs, apart from those that the event loop has for files.

The event loop has few threads. With work that hangs for seconds in all of them nothing else would be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")
# More than a machine has GPUs, several times.
_THREADS: Final = ThreadPoolExecutor(64, "gpu")


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Runs functions that may block for seconds."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(work, *arguments))
