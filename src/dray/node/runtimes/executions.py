"""Commands that are executed in running containers, of every runtime: they end with their container."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from signal import SIGKILL
from typing import Any, Final

from dray.process.tasks import end_tasks

_LAST_WORDS_SECONDS: Final = 1.0


class Executions:
    """Ends executed commands with their container, even if their clients do not read the output."""

    def __init__(self) -> None:
        self._running: dict[str, set[asyncio.Task[int]]] = {}

    async def run(self, container_id: str, work: Coroutine[Any, Any, int]) -> int:
        """Returns the exit code of the command; that of a killed command if the container ends first."""
        task = asyncio.create_task(work)
        tasks = self._running.setdefault(container_id, set())
        tasks.add(task)
        try:
            await asyncio.wait((task,))
            return 128 + SIGKILL if task.cancelled() else task.result()
        finally:
            await end_tasks((task,))
            tasks.discard(task)
            if not tasks:
                self._running.pop(container_id, None)

    async def end(self, container_id: str) -> None:
        """Kills the commands of a container that has ended or is about to be killed; returns when none runs."""
        if tasks := list(self._running.get(container_id, ())):
            await asyncio.wait(tasks, timeout=_LAST_WORDS_SECONDS)
            await end_tasks(tasks)
