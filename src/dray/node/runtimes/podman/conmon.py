"""Conmon, the process that podman leaves beside each container: its end, its sockets, its log.

    attach    a socket of packets: output to us, each with a letter for its stream; our bytes are input
    ctl       a pipe for orders: "1 ROWS COLUMNS" resizes the terminal, "2 0 0" opens the log again

They are in the directory that podman calls StaticDir. Conmon ends after podman has noted how the container ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from dray.node.runtimes import unix_sockets
from dray.node.runtimes.interface import Streams
from dray.process import ending
from dray.process.beneath import PROCESS_BYTES, read_start
from dray.process.tasks import end_tasks

_PACKET: Final = 64 * 1024
_INPUT: Final = 8 * 1024
_STREAMS: Final = {2: 1, 3: 2}


def is_alive(pid: int, container_id: str) -> bool:
    """Returns True if the process is the container's conmon, not another process with a reused id."""
    try:
        return pid > 0 and container_id.encode() in read_start(f"/proc/{pid}/cmdline", PROCESS_BYTES)
    except OSError:
        return False


def kill(pid: int, container_id: str) -> None:
    """Kills the container's conmon, if that is still the process with this number."""
    ending.kill([pid], lambda: [pid] if is_alive(pid, container_id) else [])


def open_log_again(directory: Path) -> None:
    _order(directory, b"2 0 0\n")


def _order(directory: Path, line: bytes) -> None:
    """Writes an order to conmon. Raises OSError if conmon has ended."""
    pipe = os.open(directory / "ctl", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(pipe, line)
    finally:
        os.close(pipe)


class Attachment:
    """Connects to the streams of a container. Raises OSError if the container has ended."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = unix_sockets.connect(directory, "attach", socket.SOCK_SEQPACKET)

    async def copy(self, streams: Streams, *, stdin: bool) -> None:
        """Copies output, input and terminal sizes until the container ends."""
        loop = asyncio.get_running_loop()
        extra = [asyncio.create_task(self._copy_sizes(streams))]
        if stdin:
            extra.append(asyncio.create_task(self._copy_input(streams)))
        try:
            while packet := await loop.sock_recv(self._socket, _PACKET):
                await streams.output(_STREAMS.get(packet[0], 1), packet[1:])
        except ConnectionError:
            pass
        finally:
            await end_tasks(extra)

    async def drain(self) -> None:
        """Reads output until the container ends: conmon closes the container's input when a client disconnects."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(self._socket, _PACKET):
                pass

    def close(self) -> None:
        self._socket.close()

    async def _copy_input(self, streams: Streams) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await streams.read_input():
                for start in range(0, len(data), _INPUT):
                    await loop.sock_sendall(self._socket, data[start : start + _INPUT])
            self._socket.shutdown(socket.SHUT_WR)

    async def _copy_sizes(self, streams: Streams) -> None:
        while True:
            columns, rows = await streams.resizes.get()
            with contextlib.suppress(OSError):
                _order(self._directory, b"1 %d %d\n" % (rows, columns))
