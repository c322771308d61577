"""Connection to a port inside the network namespace of a pod."""

from __future__ import annotations

import asyncio
import socket

from dray.node.network_namespaces import run_in


async def connect(namespace: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a port on the loopback interface of the namespace. Raises OSError."""
    made = await asyncio.to_thread(run_in, namespace, _socket)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        return await asyncio.open_connection(sock=made)
    except BaseException:
        made.close()
        raise


def _socket() -> socket.socket:
    """Makes a socket, which stays in the namespace of the calling thread."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
