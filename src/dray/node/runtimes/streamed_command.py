"""A command that runs with the streams of a client: over pipes, or with a terminal of its own.

It is killed with its process group when the task that waits for it is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pty
import sys
from collections.abc import Sequence
from typing import Any, Final

from dray.node.runtimes.interface import Streams
from dray.node.runtimes.shim.terminal import resize
from dray.process.descriptors import readable, writable

_CHUNK: Final = 64 * 1024
_PYTHON: Final = (sys.executable, "-I", "-S", "-c")
_CLEAN: Final = "import os, sys; os.closerange(3, os.sysconf('SC_OPEN_MAX')); "
_EXECUTE: Final = "os.execv(sys.argv[1], sys.argv[1:])"
# Makes the terminal on standard input the controlling terminal of the session, so that it gets SIGWINCH.
_TAKING_TERMINAL: Final = (
    *_PYTHON,
    f"{_CLEAN}import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {_EXECUTE}",
)


def without_files(arguments: Sequence[str]) -> list[str]:
    """Returns the command wrapped so that it inherits its streams only: event loops let children inherit files."""
    return [*_PYTHON, _CLEAN + _EXECUTE, *arguments]


async def run(arguments: Sequence[str], streams: Streams, *, tty: bool, stdin: bool) -> int:
    """Runs a command, whose first argument is a path. Returns its exit code, or 128 plus the signal that ended it."""
    if tty:
        return await _with_terminal(arguments, streams)
    return await _with_pipes(arguments, streams, stdin)


async def _with_pipes(arguments: Sequence[str], streams: Streams, stdin: bool) -> int:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=pipe if stdin else asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    copying = [_copy(process.stdout, streams, 1), _copy(process.stderr, streams, 2)]
    feeding = asyncio.create_task(_feed(process.stdin, streams)) if process.stdin is not None else None
    return await _until_ended(process, asyncio.gather(*copying), feeding)


async def _with_terminal(arguments: Sequence[str], streams: Streams) -> int:
    ours, theirs = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *_TAKING_TERMINAL,
            *arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    output = asyncio.ensure_future(_copy_terminal(ours, streams))
    extra = asyncio.gather(_feed_terminal(ours, streams), _resize(ours, streams))
    try:
        return await _until_ended(process, output, extra)
    finally:
        os.close(ours)


async def _until_ended(
    process: asyncio.subprocess.Process, output: asyncio.Future[Any], extra: asyncio.Future[Any] | None
) -> int:
    try:
        await output
        return _exit_code(await process.wait())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
        # The pipe would stay open if its output was not read, because the client did not take it.
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()
        for task in filter(None, (output, extra)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


async def _copy(reader: asyncio.StreamReader, streams: Streams, stream: int) -> None:
    while data := await reader.read(_CHUNK):
        await streams.output(stream, data)


async def _feed(writer: asyncio.StreamWriter, streams: Streams) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await streams.read_input():
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(ConnectionError, OSError):
        writer.close()


async def _copy_terminal(descriptor: int, streams: Streams) -> None:
    while True:
        await readable(descriptor)
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError as error:
            # Linux reports EIO when the last process has closed the terminal.
            if error.errno == errno.EIO:
                return
            raise
        if not data:
            return
        await streams.output(1, data)


async def _feed_terminal(descriptor: int, streams: Streams) -> None:
    while data := await streams.read_input():
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                await writable(descriptor)
    with contextlib.suppress(OSError):
        os.write(descriptor, b"\x04")


async def _resize(descriptor: int, streams: Streams) -> None:
    while True:
        columns, rows = await streams.resizes.get()
        resize(descriptor, columns, rows)
