"""A process forked from this one: it has what this one has loaded, starts at once and shares the memory of it.

Only a process without other threads and without an event loop may be forked: a lock that another thread holds would be
held for ever, and two loops would take each other's events. So this is for the first moments of a command; whoever has
to start a process later executes Python anew.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

_LINE_BYTES: Final = 2**20
# Of the name of a process, by the kernel.
_NAME_BYTES: Final = 15


def can_fork() -> bool:
    """Libraries of other systems do not work in a forked process."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcess:
    """Its input, output and end, as those of a process of asyncio."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: asyncio.StreamReader | None = None
        """After `tell`."""
        self._stdin = stdin
        self._output = stdout
        self._waiting: asyncio.Future[int] | None = None

    async def tell(self, orders: bytes) -> None:
        """All that it will read."""
        loop = asyncio.get_running_loop()
        self.stdout = asyncio.StreamReader(_LINE_BYTES)
        reading = asyncio.StreamReaderProtocol(self.stdout)
        await loop.connect_read_pipe(lambda: reading, os.fdopen(self._output, "rb", buffering=0))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(self._stdin, "wb", buffering=0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        with suppress(ConnectionError):
            writer.write(orders)
            await writer.drain()
        writer.close()

    async def wait(self) -> int:
        """Its status, once it has ended."""
        if self._waiting is None:
            # Once for all who wait: the status is told to the first alone.
            self._waiting = asyncio.get_running_loop().run_in_executor(None, os.waitpid, self.pid, 0)  # type: ignore
        _, status = await asyncio.shield(self._waiting)
        self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(main: Callable[[], None], name: str, passed: int) -> ForkedProcess:
    """A process that calls `main` and ends, with the name that `ps -o comm` shows, with the descriptor `passed` and no
    others."""
    reading, stdin = os.pipe()
    stdout, writing = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # The collector writes to all that it looks at, and what was written to is shared no longer.
    gc.freeze()
    pid = os.fork()
    if not pid:
        _be(main, name, reading, writing, passed)
    os.close(reading)
    os.close(writing)
    return ForkedProcess(pid, stdin, stdout)


def _be(main: Callable[[], None], name: str, reading: int, writing: int, passed: int) -> NoReturn:
    """Never returns into what the other process was doing, and does none of what that has to do when it ends."""
    status = 1
    try:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.closerange(3, passed)
        os.closerange(passed + 1, os.sysconf("SC_OPEN_MAX"))
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
        with open("/proc/self/comm", "w") as file:
            file.write(name[:_NAME_BYTES])
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)
