"""Compaction: what only readers of the past would need is forgotten after a while."""

from __future__ import annotations

import asyncio
import logging

from dray.store.interface import Store, StoreError

_log = logging.getLogger("dray.server")

KEPT_SECONDS = 300.0


class Compaction:
    """Every `seconds` it forgets what was written before the time before."""

    def __init__(self, store: Store, *, seconds: float = KEPT_SECONDS) -> None:
        self._store = store
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="compaction")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        revision = self._store.revision
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self._store.compact(revision)
            except StoreError:
                _log.exception("the store cannot be compacted now")
            revision = self._store.revision
