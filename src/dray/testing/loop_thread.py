"""Loop thread: an event loop in a thread of its own, for code that is not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_PATIENCE: Final = 10.0


class LoopThread:
    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)

    def start(self, first: Coroutine[Any, Any, None]) -> None:
        """Starts the thread and runs `first` in it; ends the thread again if that fails."""
        self.thread.start()
        try:
            self.call(first)
        except BaseException:
            self.end()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread, and returns its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def stop(self, last: Coroutine[Any, Any, object]) -> None:
        """Runs `last` in the thread, and ends the thread."""
        try:
            self.call(last)
        finally:
            self.end()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_PATIENCE)
        self.loop.close()
