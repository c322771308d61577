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

from dray.process.descriptors import LoopPipe

_LINE_BYTES: Final = 2**20
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def can_fork() -> bool:
    """Libraries of other systems do not work in a forked process."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcess:
    """A forked process, with the interface of an asyncio process."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: asyncio.StreamReader | None = None
        """The output of the process; None before `tell` is called."""
        self._pipes: tuple[int, int] | None = (stdin, stdout)
        """Descriptors of input and output; None once the event loop owns them."""
        self._reading: asyncio.BaseTransport | None = None
        self._waiting: asyncio.Future[tuple[int, int]] | None = None

    async def tell(self, orders: bytes) -> None:
        """Sends the whole input of the process, and connects its output."""
        assert self._pipes is not None
        (stdin, stdout), self._pipes = self._pipes, None
        loop = asyncio.get_running_loop()
        self.stdout = asyncio.StreamReader(_LINE_BYTES)
        reading = asyncio.StreamReaderProtocol(self.stdout)
        self._reading, _ = await loop.connect_read_pipe(lambda: reading, LoopPipe(stdout))
        flow = asyncio.streams.FlowControlMixin(loop)
        transport, protocol = await loop.connect_write_pipe(lambda: flow, LoopPipe(stdin))
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        with suppress(ConnectionError):
            writer.write(orders)
            await writer.drain()
        writer.close()

    async def wait(self) -> int:
        """Waits for the end of the process. Returns its exit code."""
        if self._waiting is None:
            # Once for all who wait: the status is told to the first alone.
            self._waiting = asyncio.get_running_loop().run_in_executor(None, os.waitpid, self.pid, 0)
        _, status = await asyncio.shield(self._waiting)
        self.returncode = os.waitstatus_to_exitcode(status)
        if self._reading is not None:
            self._reading.close()
        elif self._pipes is not None:
            for descriptor in self._pipes:
                os.close(descriptor)
            self._pipes = None
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(main: Callable[[], None], passed: int) -> ForkedProcess:
    """A process that calls `main` and ends, with the descriptor `passed` and no other of this one."""
    reading, stdin = os.pipe()
    stdout, writing = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # The collector writes to all that it looks at, and what was written to is shared no longer.
    gc.freeze()
    # One that comes before the new process has handlers of its own waits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    pid = os.fork()
    if not pid:
        _be(main, reading, writing, passed)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(reading)
    os.close(writing)
    return ForkedProcess(pid, stdin, stdout)


def _be(main: Callable[[], None], reading: int, writing: int, passed: int) -> NoReturn:
    """Never returns into what the other process was doing, and does none of what that has to do when it ends."""
    status = 1
    try:
        # An interrupt from the keyboard is for the other process, whose handlers are not for this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        _close_all_but({0, 1, 2, passed})
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
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


def _close_all_but(kept: set[int]) -> None:
    # Not all numbers up to the limit: that is a thousand million in some containers.
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with suppress(OSError):
                os.close(number)
