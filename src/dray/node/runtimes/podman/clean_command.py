"""A command that gets nothing of the agent but its environment: neither open files nor signals from its terminal.

Podman leaves processes behind that hold what they inherited. Event loops may let a child inherit the pipes of another
one, which then never end, so the child is made without the loop.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from dray.node.runtimes.process_end import ended
from dray.process.descriptors import LoopPipe

# Variables for the agent's own supervisor: the command must not answer it in the agent's place.
_WITHHELD: Final = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


class CleanCommand:
    """Starts the command in the directory. Raises OSError if it cannot be run."""

    def __init__(self, arguments: Sequence[str], directory: Path) -> None:
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=directory,
            env={name: value for name, value in os.environ.items() if name not in _WITHHELD},
        )

    async def communicate(self) -> tuple[int, bytes, bytes]:
        """Waits for the end of the command. Returns its exit code, output and errors."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        output, errors, _ = await asyncio.gather(
            _read(self._process.stdout), _read(self._process.stderr), ended(self._process.pid)
        )
        return self._process.wait(), output, errors

    def end(self) -> None:
        """Kills the command if it still runs, and closes its pipes."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


async def _read(pipe: IO[bytes]) -> bytes:
    reader = asyncio.StreamReader()
    own = LoopPipe(os.dup(pipe.fileno()))
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), own)
    try:
        return await reader.read()
    finally:
        transport.close()
