"""Upgrades of a node's connection: a request that becomes another protocol, which passes the server as bytes.

The head of the client's request goes to the node without anything that says who the client is; once the node has
agreed, server and node have no more to say. What the node refuses is refused to the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.server import status
from dray.server.kubelets.client import CHUNK, DIAL_SECONDS, Endpoint, KubeletClient, Unreachable, why
from dray.server.requests import Upgrade

_HANDED_ON: Final = (
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "upgrade",
    "user-agent",
)
_MOST_HEAD: Final = 64 * 1024
_MOST_REFUSAL: Final = 64 * 1024
_ANSWER_SECONDS: Final = 30.0
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d{1,9}) *\r\n", re.IGNORECASE)
_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 404: "NotFound"}
VERSIONS: Final = "x-stream-protocol-version"
_SPOKEN: Final = ("v4.channel.k8s.io", "portforward.k8s.io")
_HEAD: Final = (
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    "X-Stream-Protocol-Version: {}\r\n\r\n"
)


def wants_upgrade(headers: Mapping[str, str]) -> bool:
    tokens = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return "upgrade" in tokens and bool(headers.get("upgrade"))


async def upgrade(client: KubeletClient, endpoint: Endpoint, target: str, headers: Mapping[str, str]) -> Upgrade:
    """Upgrades a connection to the node; `target` is path and query for the node. Raises ApiError."""
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=client.tls, server_hostname=endpoint.node, limit=_MOST_HEAD
            )
    except (OSError, TimeoutError, ValueError) as error:
        text = why(error, endpoint) if str(error) else f"no answer within {DIAL_SECONDS:g} s"
        raise status.ApiError(500, "", f"error dialing backend: dial tcp {endpoint.place}: {text}") from error
    try:
        writer.write(_head(endpoint, target, headers))
        async with asyncio.timeout(_ANSWER_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            code = int(match[1]) if (match := _STATUS.match(head)) else 0
            if code == 101:
                return Upgrade(head, _RawSide(reader, writer))
            said = await _body(reader, head)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        await _close(writer)
        raise status.ApiError(500, "", f"error dialing backend: {endpoint.place} broke off") from error
    except BaseException:
        writer.transport.abort()
        raise
    await _close(writer)
    raise refusal(code, said.decode(errors="replace"))


def refusal(code: int, text: str) -> status.ApiError:
    """Returns the node's refusal as an error for the client."""
    reason = _REASONS.get(code, "InternalError")
    text = text.strip() or f"the node answered with {code}"
    return status.ApiError(code if code in _REASONS else 500, reason, text)


def _head(endpoint: Endpoint, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {endpoint.place}", "Connection: Upgrade"]
    # uvicorn passes no header with a line break in its value.
    lines += [f"{name}: {headers[name]}" for name in _HANDED_ON if name in headers]
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    length = _LENGTH.search(head)
    wanted = min(int(length[1]), _MOST_REFUSAL) if length else _MOST_REFUSAL
    found = b""
    while len(found) < wanted and (data := await reader.read(CHUNK)):
        found += data
    return found[:_MOST_REFUSAL]


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


class _RawSide:
    """A node connection that exchanges the same bytes as the client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        await _close(self._writer)


if TYPE_CHECKING:
    import aiohttp


def wants_spdy(headers: Mapping[str, str]) -> bool:
    return headers.get("upgrade", "").lower() == "spdy/3.1"


async def upgrade_to_spdy(
    client: KubeletClient, endpoint: Endpoint, target: str, headers: Mapping[str, str]
) -> Upgrade:
    """Upgrades a connection to SPDY for older clients. Raises ApiError.

    Between server and node the SPDY bytes travel in the messages of a WebSocket, as new clients use it for
    port-forward. The server negotiates the version of the stream protocol, and copies.
    """
    offered = [name.strip() for name in headers.get(VERSIONS, "").split(",")]
    version = next((name for name in offered if name in _SPOKEN), None)
    if version is None:
        message = (
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {_SPOKEN}"
        )
        raise status.ApiError(403, "Forbidden", message)
    path, _, query = target.partition("?")
    try:
        socket = await client.websocket(endpoint, path, query, f"SPDY/3.1+{version}")
        if socket is None:
            # Asked again without an upgrade, the node answers with its error message.
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
