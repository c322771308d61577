"""Connection to a port inside the network namespace of a pod."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

from dray.node.runtimes.shim import system


async def connect(namespace: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To its loopback interface, where also what listens on all interfaces is found. Raises OSError."""
    made = await asyncio.to_thread(_socket_in, namespace)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        return await asyncio.open_connection(sock=made)
    except BaseException:
        made.close()
        raise


def _socket_in(namespace: str) -> socket.socket:
    """A socket stays in the namespace in which it was made. The thread that enters it ends, and is no one else's."""
    found: list[socket.socket | OSError] = []

    def enter() -> None:
        try:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                system.setns(descriptor, system.CLONE_NEWNET)
            finally:
                os.close(descriptor)
            found.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=enter, name="network namespace of a pod")
    thread.start()
    thread.join()
    (result,) = found
    if isinstance(result, OSError):
        raise result
    return result
