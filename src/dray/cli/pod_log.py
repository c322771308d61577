"""The log of a container while it runs, copied to this process's output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Final

from dray.api.catalogue import built_in
from dray.client import interface
from dray.client.clock import timestamp
from dray.client.errors import ApiError, ConnectionFailed
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.client.api import ApiClient

PODS: Final = built_in("v1", "Pod")
# Since this version a server gives the two streams apart, or refuses to; older ones would give both twice.
_SPLITTING: Final = (1, 32)
_PAUSE: Final = 1.0


class PodLog:
    """`lost` is called when the connection breaks; once, however many streams and attempts break."""

    def __init__(
        self, client: ApiClient, namespace: str, pod: str, container: str, lost: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._lost = lost
        self._is_lost = False
        self._path = interface.item(PODS, namespace, pod, "log")
        self._container = container
        self.unread = False
        """Whether nobody reads this process's output any more."""

    async def copy(self) -> None:
        """Copies the log until the container has ended; stderr goes to stderr if the server separates it."""
        with contextlib.suppress(BrokenPipeError):
            if not (await self._splits() and await self._copy_apart()):
                await self._copy(sys.stdout.buffer, "")

    async def _copy_apart(self) -> bool:
        """False if the server refuses to tell the streams apart."""
        outputs = ((sys.stdout.buffer, "Stdout"), (sys.stderr.buffer, "Stderr"))
        copying = [asyncio.ensure_future(self._copy(output, stream)) for output, stream in outputs]
        try:
            await asyncio.gather(*copying)
        except ApiError as error:
            if error.status not in (400, 422):
                raise
            return False
        finally:
            await end_tasks(copying)
        return True

    async def _splits(self) -> bool:
        version = await self._client.request("GET", "/version")
        try:
            return (int(version["major"]), int(str(version["minor"]).rstrip("+"))) >= _SPLITTING
        except (KeyError, ValueError):
            return False

    async def _copy(self, output: IO[bytes], stream: str) -> None:
        query = {"follow": "true", "container": self._container, **({"stream": stream} if stream else {})}
        while True:
            try:
                async with aclosing(self._client.stream(self._path, query=query)) as chunks:
                    async for chunk in chunks:
                        self._is_lost = False
                        output.write(chunk)
                        output.flush()
                return
            except BrokenPipeError:
                self.unread = True
                os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
                raise
            except ConnectionFailed:
                if not self._is_lost:
                    self._is_lost = True
                    self._lost()
                # It goes on where it broke, as exactly as the server knows times.
                query["sinceTime"] = timestamp(datetime.now(UTC))
                await asyncio.sleep(_PAUSE)
