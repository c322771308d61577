"""Unix sockets with gRPC servers on them, which are served anew when somebody removes the socket's file.

A server binds a hidden name, which is then renamed: the socket appears under its own name when it is ready, and
open to its owner alone, because whoever can connect can have claims unprepared. A server that stops removes the name
it has bound, and so never that of a successor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc

from dray.driver.errors import DriverError

_logger = logging.getLogger(__name__)


class ServedSocket:
    """`add` puts the services on a new server."""

    def __init__(self, path: Path, add: Callable[[grpc.aio.Server], None]) -> None:
        self.path = path
        self._add = add
        self._server: grpc.aio.Server | None = None
        self._inode = 0
        self._retiring: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Replaces a socket that an earlier process left behind."""
        hidden = self.path.with_name(f".{secrets.token_hex(3)}")
        server = grpc.aio.server()
        self._add(server)
        try:
            server.add_insecure_port(f"unix:{hidden}")
        except RuntimeError as error:
            await server.stop(None)
            raise DriverError(f"cannot listen on {self.path}: does its directory exist? ({error})") from error
        await server.start()
        os.chmod(hidden, 0o600)
        os.rename(hidden, self.path)
        self._server = server
        self._inode = self.path.stat().st_ino

    async def keep(self, grace: float) -> None:
        """Serves anew if the file is gone or not ours any more; calls that came in by the old one may end."""
        old = self._server
        if old is None or self._is_ours():
            return
        _logger.warning("the socket %s is gone; it is made again", self.path)
        await self.start()
        task = asyncio.create_task(_stop(old, grace), name=f"server of the former {self.path.name}")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def stop(self, grace: float) -> None:
        """Takes no new calls, and waits for those in progress."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._is_ours():
            self.path.unlink(missing_ok=True)
        await server.stop(grace)
        await asyncio.gather(*self._retiring, return_exceptions=True)

    def _is_ours(self) -> bool:
        with suppress(FileNotFoundError):
            return self.path.stat().st_ino == self._inode
        return False


def remove_dead_sockets(directory: Path, pattern: str) -> None:
    """Removes the sockets that no process listens on: those of instances that were killed.

    A kubelet tries a dead registration socket for ever. A socket has its name only while it is served.
    """
    for path in directory.glob(pattern):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
            try:
                client.connect(str(path))
            except ConnectionRefusedError:
                _logger.warning("the socket %s was left by a process that was killed; it is removed", path)
                path.unlink(missing_ok=True)
            except OSError:
                # Not a socket, or one whose process is busy.
                continue


async def _stop(server: grpc.aio.Server, grace: float) -> None:
    await server.stop(grace)
