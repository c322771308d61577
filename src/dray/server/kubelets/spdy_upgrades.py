"""Upgrades to SPDY, which older clients ask for: between server and node their bytes travel in a WebSocket.

The node speaks SPDY in the messages of a WebSocket, as new clients use it for port-forward. The server agrees on the
version of the streams' protocol, and copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.server import status
from dray.server.kubelets.client import KubeletClient, Unreachable
from dray.server.kubelets.endpoint import Endpoint
from dray.server.kubelets.upgrades import refusal
from dray.server.requests import Upgrade

if TYPE_CHECKING:
    import aiohttp

VERSIONS: Final = "x-stream-protocol-version"
_SPOKEN: Final = ("v4.channel.k8s.io", "portforward.k8s.io")
_HEAD: Final = (
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    "X-Stream-Protocol-Version: {}\r\n\r\n"
)


def wants_spdy(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "spdy/3.1"


async def upgrade_to_spdy(
    client: KubeletClient, endpoint: Endpoint, target: str, headers: Mapping[str, str]
) -> Upgrade:
    """Raises ApiError."""
    offered = [each.strip() for each in headers.get(VERSIONS, "").split(",")]
    version = next((each for each in offered if each in _SPOKEN), None)
    if version is None:
        message = (
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {_SPOKEN}"
        )
        raise status.ApiError(403, "Forbidden", message)
    path, _, query = target.partition("?")
    try:
        socket = await client.websocket(endpoint, path, query, f"SPDY/3.1+{version}")
        if socket is None:
            # Asked once more without an upgrade, the node says in words what it has against it.
            answer = await client.request(endpoint, path, query, seconds=10)
            raise refusal(answer.code, await answer.text())
    except Unreachable as error:
        raise status.ApiError(500, "", f"error dialing backend: {error}") from error
    return Upgrade(_HEAD.format(version).encode(), _WebSocketSide(socket))


class _WebSocketSide:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        from aiohttp import WSMsgType

        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close()
