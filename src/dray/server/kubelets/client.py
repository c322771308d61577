"""Kubelet client: requests of the server to the API of a node, with a certificate that only the server has.

The agent must show a certificate of the server's authority for the name of its node: an address in a Node object
cannot lead a request to another place. Answers are read as they are needed, a piece at a time.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import mapping, mappings, status_of
from dray.server import documents, status
from dray.server.context import Context
from dray.server.http_client import load_http_client, told
from dray.server.resources import key_prefix
from dray.server.security.authority import CLIENT_LIFETIME, Authority
from dray.server.security.certificates import client_context

if TYPE_CHECKING:
    import aiohttp

DIAL_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
"""Timeout in seconds for the beginning of an answer; the rest may take longer."""
CHUNK: Final = 64 * 1024
_CERTIFICATE_SECONDS: Final = CLIENT_LIFETIME.total_seconds() / 3
_LONGEST_REFUSAL: Final = 64 * 1024
_NODES = key_prefix("", "nodes")
_ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname")


class Unreachable(Exception):
    """Raised if the node did not answer; the text says why."""


@dataclass(frozen=True, slots=True)
class KubeletAnswer:
    code: int
    content_type: str
    chunks: AsyncGenerator[bytes, None]

    async def read(self, most: int) -> bytes:
        """Reads the whole answer; raises Unreachable if it is longer than `most` bytes."""
        found = bytearray()
        try:
            async for chunk in self.chunks:
                found += chunk
                if len(found) > most:
                    raise Unreachable(f"the node answered with more than {most} bytes")
        finally:
            await self.chunks.aclose()
        return bytes(found)

    async def text(self) -> str:
        """Returns the text of an error answer."""
        try:
            return (await self.read(_LONGEST_REFUSAL)).decode(errors="replace").strip()
        except Unreachable as error:
            return str(error)


class KubeletClient:
    """Shows a certificate of `clients`; trusts nodes by `serving`, and by `clients` for older certificates."""

    def __init__(self, clients: Authority, serving: Authority) -> None:
        self._clients = clients
        self._serving = serving
        self._context: ssl.SSLContext | None = None
        self._made = 0.0
        self._session: aiohttp.ClientSession | None = None

    @property
    def tls(self) -> ssl.SSLContext:
        """Returns the TLS context; it is made on first use, and again long before its certificate expires."""
        now = time.monotonic()
        if self._context is None or now - self._made > _CERTIFICATE_SECONDS:
            trusted = self._serving.certificate + self._clients.certificate
            self._context = client_context(trusted, self._clients.kubelet_client())
            self._made = now
        return self._context

    async def request(
        self,
        endpoint: Endpoint,
        path: str,
        query: Mapping[str, str] | str = "",
        *,
        method: str = "GET",
        body: bytes = b"",
        content_type: str = "",
        seconds: float | None = None,
    ) -> KubeletAnswer:
        """Sends a request; `seconds` limits the whole answer. Raises Unreachable."""
        session = await self.session()
        import aiohttp

        url = f"https://{endpoint.place}{path}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await session.request(
                    method,
                    url,
                    params=query or None,
                    data=body or None,
                    headers={"Content-Type": content_type} if content_type else None,
                    ssl=self.tls,
                    server_hostname=endpoint.node,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=DIAL_SECONDS, connect=None),
                )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unreachable(f'{method.capitalize()} "{url}": {why(error, endpoint)}') from error
        return KubeletAnswer(answer.status, answer.headers.get("Content-Type", "text/plain"), Body(answer))

    async def websocket(
        self, endpoint: Endpoint, path: str, query: str, protocol: str
    ) -> aiohttp.ClientWebSocketResponse | None:
        """Opens a WebSocket to the node; returns None if the node refuses it. Raises Unreachable."""
        session = await self.session()
        import aiohttp

        url = f"https://{endpoint.place}{path}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await session.ws_connect(
                    f"{url}?{query}",
                    protocols=(protocol,),
                    ssl=self.tls,
                    server_hostname=endpoint.node,
                    timeout=aiohttp.ClientWSTimeout(ws_close=2),
                )
        except aiohttp.WSServerHandshakeError:
            return None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise Unreachable(f'Get "{url}": {why(error, endpoint)}') from error

    async def session(self) -> aiohttp.ClientSession:
        await load_http_client()
        import aiohttp

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                # A small compressed answer could unpack to more than fits in memory.
                auto_decompress=False,
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            # TLS connections are closed in the following turns of the event loop.
            await asyncio.sleep(0)


class Body(AsyncGenerator[bytes, None]):
    """The rest of an answer. Closing it releases the connection, even if nothing was read."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def asend(self, value: None) -> bytes:
        import aiohttp

        try:
            chunk = await self._answer.content.read(CHUNK)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # The node failed in the middle of the answer: return what has arrived.
            chunk = b""
        except BaseException:
            self._answer.close()
            raise
        if not chunk:
            self._answer.close()
            raise StopAsyncIteration
        return chunk

    async def athrow(self, kind: Any, value: Any = None, traceback: Any = None) -> bytes:
        self._answer.close()
        raise kind if value is None else value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a node's API; the agent's certificate must carry the name `node`."""

    node: str
    host: str
    port: int

    @property
    def place(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def why(error: Exception, endpoint: Endpoint) -> str:
    """Returns why a node was not reached. For an untrusted certificate it also says what to do."""
    text = told(error)
    if not isinstance(getattr(error, "certificate_error", error), ssl.SSLCertVerificationError):
        return text
    return (
        f"{text}; the kubelet must show a certificate that this cluster issued for {endpoint.node}: "
        "set serverTLSBootstrap: true in its configuration"
    )


def endpoint_of(context: Context, name: str) -> Endpoint:
    """Returns the endpoint of a node.

    Raises a 404 for an unknown node, a 501 for one without API such as a simulated node.
    """
    record = context.store.get(_NODES + name)
    if record is None:
        raise status.not_found("", "nodes", name)
    told = status_of(documents.decode(record.value))
    port = mapping(mapping(told.get("daemonEndpoints")).get("kubeletEndpoint")).get("Port")
    addresses = {
        str(address.get("type")): str(address.get("address") or "") for address in mappings(told.get("addresses"))
    }
    host = next((addresses[type_] for type_ in _ADDRESS_TYPES if addresses.get(type_)), "")
    if not host or not isinstance(port, int) or not 0 < port < 65536:
        raise status.not_implemented(f"node {name} has no kubelet API: it is simulated, or its agent never started")
    return Endpoint(name, host, port)
