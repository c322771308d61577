"""An HTTP address for a cluster in process, so that drivers and tools in other processes can reach it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import uvicorn

from dray.server.application import Application
from dray.server.listening import listen
from dray.server.security import kubeconfig


class _Server(uvicorn.Server):
    """Leaves signals to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ApiEndpoint:
    """Serves plain HTTP on a free loopback port, for as long as the `async with` block lasts."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._socket = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            application, ws="none", lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ApiEndpoint:
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="API endpoint")
        while not self._server.started:
            if self._serving.done():
                await self._serving
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._application.end_streams()
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    def write_kubeconfig(self, path: Path) -> Path:
        kubeconfig.write_kubeconfig(path, kubeconfig.plain(self.url))
        return path
