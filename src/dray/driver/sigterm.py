"""SIGTERM as an orderly end: it cancels the work in progress, which then cleans up."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancelled_by_sigterm() -> Iterator[None]:
    """On SIGTERM the body is cancelled, and the block ends without an exception once the body has cleaned up."""
    task = asyncio.current_task()
    if task is None or not _is_unhandled():
        yield
        return
    loop = asyncio.get_running_loop()
    received = False

    def cancel() -> None:
        nonlocal received
        received = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if not received or task.uncancel():
            raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _is_unhandled() -> bool:
    in_main_thread = threading.current_thread() is threading.main_thread()
    return in_main_thread and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
