"""Retention of past revisions: long enough for readers to finish their pages and for watchers to come back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dray.store.interface import Store, StoreError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    seconds: float = 300.0
    # Limit of revisions: it bounds memory under heavy writing.
    revisions: int = 100_000
    interval: float = 10.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, store: Store) -> None:
        """Compacts the store from time to time, until cancelled; failures are logged and retried later."""
        marks = deque([store.revision], maxlen=max(1, round(self.seconds / self.interval)))
        said = ""
        while True:
            await self.sleep(self.interval)
            oldest = marks[0] if len(marks) == marks.maxlen else 0
            marks.append(store.revision)
            try:
                await store.compact(max(oldest, store.revision - self.revisions, 0))
                said = ""
            except StoreError as error:
                if str(error) != said:
                    said = str(error)
                    _logger.error("%s", error)
