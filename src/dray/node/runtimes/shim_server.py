"""Connection of the agent to its shim server, which is started with the first container and ends with the agent."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import Final

import dray
from dray.process.descriptors import LoopPipe

_ANSWER_BYTES: Final = 65536


class ShimServer:
    def __init__(self) -> None:
        self._beginning = asyncio.Lock()
        self._end: int | None = None
        """The agent's end of a socket pair; closing it ends the server."""
        self._closing: weakref.finalize[[int], ShimServer] | None = None

    async def start(self, directory: Path, lock: int) -> bytes:
        """Starts the shim of the container in the directory. Returns its answer; b"" if it ended before answering."""
        told, tell = os.pipe()
        try:
            await self._send(bytes(directory), lock, tell)
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(tell)
        return await _read(told)

    async def _send(self, message: bytes, lock: int, tell: int) -> None:
        for attempt in range(2):
            async with self._beginning:
                if self._end is None:
                    await self._begin()
            assert self._end is not None
            try:
                with socket.socket(fileno=os.dup(self._end)) as end:
                    socket.send_fds(end, [message], [lock, tell])
                return
            except OSError:
                # The server was killed; start a new one.
                self._forget()
                if attempt:
                    raise

    async def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # The new process forks the server and ends at once, so nothing has to wait for the server.
            process = await asyncio.create_subprocess_exec(
                *shim_command("server"), stdin=theirs.fileno(), stdout=_NULL, stderr=_NULL, env={}
            )
            await process.wait()
        self._end = ours.detach()
        self._closing = weakref.finalize(self, os.close, self._end)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing()
        self._end = self._closing = None


_NULL: Final = asyncio.subprocess.DEVNULL


def shim_command(module: str, *arguments: str) -> list[str]:
    """Returns a command that runs Python without site packages, which starts in a fraction of the time."""
    source = str(Path(dray.__file__).parent.parent)
    program = f"import sys; sys.path.insert(0, {source!r}); from dray.node.runtimes.shim.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", program, *arguments]


async def _read(descriptor: int) -> bytes:
    """Reads until the other end is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_ANSWER_BYTES)
    pipe = LoopPipe(descriptor)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return await reader.read()
    finally:
        transport.close()
