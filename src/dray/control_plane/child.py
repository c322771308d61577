"""A component as a child process of the API server: started, watched and restarted. The control plane is one.

The child asks the server over one end of a socket pair (`dray.client.link`) and writes lines of JSON to its output:
when it is ready, and which of its parts work. It is started again whenever it ends, after a pause that doubles, up to
a minute, or up to some seconds where it had been ready. It is killed when this process ends, however it ends. The first
one is forked where that is possible: it loads little that this process has not loaded. The later ones, when this
process has threads, are Python executed anew.

Two processes were chosen by measurement (two cores, a thousand pods with a claim each, the client in a third process):
the server computes 1.8 ms a pod and the control plane 1.5 ms, against 2.7 to 3.8 ms in one process. So the second core
is used, and a search or a fault in the one neither delays nor ends the other. They take about 70 MB more memory.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from dray.client.link import LinkServer
from dray.client.retries import Backoff
from dray.client.transport import Transport
from dray.process.forking import ForkedProcess, can_fork, fork

_BACKOFF: Final = Backoff(first=1.0, longest=60.0)
# A child that worked this long has not failed repeatedly.
_LASTING: Final = 600.0
# A child that was ready before it ended, such as a killed one, is needed soon: pods wait for it.
_LONGEST_AFTER_WORK: Final = 8.0
_LAST_SECONDS: Final = 10.0
_logger = logging.getLogger("dray.control_plane")


class Report(msgspec.Struct, omit_defaults=True):
    """A line of the child's output. Missing members have not changed."""

    ready: bool = False
    metrics: str = ""
    parts: Mapping[str, str] | None = None
    """The problem of each part by name; empty for a working one."""
    plugins: Mapping[str, str] | None = None
    """The problem of each plugin of users by name; empty for a used one."""
    refused: str = ""
    """Why it cannot run, however often it is tried; empty if it can."""
    made: Mapping[str, int] | None = None
    """Number of objects that it has made, by kind."""


class Refused(Exception):
    """Raised if the child cannot run, however often it is tried."""


class Child:
    """A child process; `command` gets the number of its end of the link as last argument, and `orders` as input.

    `called` is its name in the log.
    """

    def __init__(self, command: Sequence[str], orders: bytes = b"", *, called: str = "control plane") -> None:
        self.called = called
        self.orders = orders
        self.ready = asyncio.Event()
        """Set once the child works for the first time."""
        self.metrics = ""
        """The address of its metrics."""
        self.made: Mapping[str, int] = {}
        self.restarts = 0
        self._command = tuple(command)
        self._parts: Mapping[str, str] = {}
        self._plugins: Mapping[str, str] = {}
        self._problem = "starting"
        self._refused = ""
        self._stopping = False
        self._process: asyncio.subprocess.Process | ForkedProcess | None = None
        self._end: socket.socket | None = None

    def problems(self) -> Mapping[str, str]:
        """Returns the problem of each part by name; empty for a working one."""
        return {self.called.replace(" ", "-"): self._problem, **self._parts}

    def plugins(self) -> Mapping[str, str]:
        """Returns the problem of each plugin of users by name; empty for a used one."""
        return {f"plugin {name}": why for name, why in self._plugins.items()}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def fork(self, main: Callable[[int], None]) -> None:
        """Forks the first child, if possible, which calls `main` with the number of its end.

        Call it before the event loop.
        """
        if not can_fork():
            return
        here, there = socket.socketpair()
        with there:
            self._process = fork(partial(main, there.fileno()), there.fileno())
        self._end = here

    async def start(self) -> None:
        """Starts the child and sends its orders; its requests wait until `run`."""
        if isinstance(self._process, ForkedProcess):
            await self._process.tell(self.orders)
            return
        here, there = socket.socketpair()
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                *self._command,
                str(there.fileno()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(there.fileno(),),
                limit=2**20,
            )
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        self._end = here
        stdin = process.stdin
        assert stdin is not None
        with suppress(ConnectionError):
            stdin.write(self.orders)
            await stdin.drain()
        stdin.close()

    async def run(self, transport: Transport) -> None:
        """Answers the child, and restarts it when it ends, until `stop`. Raises Refused."""
        failures = 0
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            if self._process is None:
                await self.start()
            status = await self._attend(transport)
            if self._stopping:
                return
            if self._refused:
                raise Refused(self._refused)
            failures = 1 if loop.time() - began > _LASTING else failures + 1
            self.restarts += 1
            worked = not self._problem
            self._problem = f"ended with status {status}"
            pause = _BACKOFF.delay(failures, random.random)
            if worked:
                pause = min(pause, _LONGEST_AFTER_WORK)
            _logger.error("the %s ended with status %s and is started again in %.1f s", self.called, status, pause)
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Ends the child, which may finish its writes for a moment; it is not restarted."""
        self._stopping = True
        if self._end is not None:
            # The child was started, but `run` was never called.
            self._end.close()
            self._end = None
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_LAST_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _attend(self, transport: Transport) -> int:
        """Answers one child until it ends. Returns its exit status."""
        process, end = self._process, self._end
        self._end = None
        assert process is not None
        assert end is not None
        link = await LinkServer.serve(transport, end)
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                self._take(line)
            return await process.wait()
        finally:
            link.close()
            # After a cancellation `stop` ends the child.
            if process.returncode is not None:
                self._process = None

    def _take(self, line: bytes) -> None:
        try:
            report = msgspec.json.decode(line, type=Report)
        except msgspec.DecodeError:
            _logger.warning("the %s says %r", self.called, line[:200])
            return
        if report.ready:
            self._problem = ""
            self.metrics = report.metrics
            self.made = report.made or {}
            self.ready.set()
        if report.parts is not None:
            self._parts = report.parts
        if report.plugins is not None:
            self._plugins = report.plugins
        self._refused = report.refused or self._refused
