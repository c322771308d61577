"""Handlers of probes and lifecycle hooks: a command, an HTTP request, a connection, a gRPC call, a pause.

`run` returns None where the handler succeeded, else what went wrong, as events say it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dray.api.objects import Object, mapping, mappings
from dray.node.runtimes.interface import Runtime, StartError

if TYPE_CHECKING:
    from aiohttp import ClientSession

_OUTPUT_BYTES: Final = 10 * 1024
_MOST_REDIRECTS: Final = 10


class _Output:
    """Collects the output of a command up to a size; gives it no input."""

    def __init__(self) -> None:
        self.data = b""
        self.resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    async def output(self, stream: int, data: bytes) -> None:
        self.data += data[: _OUTPUT_BYTES - len(self.data)]

    async def read_input(self) -> bytes:
        return b""


async def run(handler: Object, container: Object, container_id: str, runtime: Runtime, address: str) -> str | None:
    if command := mapping(handler.get("exec")).get("command"):
        return await _command(list(command), container_id, runtime)
    if request := mapping(handler.get("httpGet")):
        return await _http(request, container, address)
    if socket := mapping(handler.get("tcpSocket")):
        return await _tcp(str(socket.get("host") or address), port_number(socket.get("port"), container))
    if "grpc" in handler:
        return await _grpc(mapping(handler.get("grpc")), address)
    if "sleep" in handler:
        await asyncio.sleep(float(mapping(handler.get("sleep")).get("seconds") or 0))
    return None


def port_number(port: Any, container: Object) -> int:
    """Returns a port by number, or by its name in the container; 0 if the container has no port of that name."""
    if isinstance(port, int):
        return port
    named = {entry.get("name"): entry.get("containerPort") for entry in mappings(container.get("ports"))}
    found = named.get(port, port)
    return int(str(found)) if str(found).isdigit() else 0


async def _command(command: list[str], container_id: str, runtime: Runtime) -> str | None:
    output = _Output()
    try:
        code = await runtime.exec(container_id, command, output)
    except StartError as error:
        return str(error)
    said = output.data.decode(errors="replace").strip()
    return None if code == 0 else said or f"command {command[0]} exited with {code}"


async def _http(request: Object, container: Object, address: str) -> str | None:
    # Imported only where it is needed: no other part of an agent needs it to start.
    import aiohttp

    scheme = str(request.get("scheme") or "HTTP").lower()
    host = str(request.get("host") or address)
    host = f"[{host}]" if ":" in host else host
    path = str(request.get("path") or "/")
    url = (
        f"{scheme}://{host}:{port_number(request.get('port'), container)}{path if path.startswith('/') else '/' + path}"
    )
    headers = {str(header["name"]): str(header.get("value") or "") for header in mappings(request.get("httpHeaders"))}
    headers.setdefault("User-Agent", "kube-probe/1.37")
    try:
        async with aiohttp.ClientSession() as session:
            code = await _status(session, url, headers)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f'Get "{url}": {error or type(error).__name__}'
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


async def _status(session: ClientSession, url: str, headers: dict[str, str]) -> int:
    """Returns the status of a GET.

    Redirects are followed on the same host only; a redirect to another host is itself the answer.
    """
    from yarl import URL

    for _ in range(_MOST_REDIRECTS):
        # Certificates of pods are not verified, like a kubelet does.
        async with session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer:
            await answer.content.read(_OUTPUT_BYTES)
            place = answer.headers.get("Location", "")
            if answer.status not in (301, 302, 303, 307, 308) or not place:
                return answer.status
            there = answer.url.join(URL(place))
            if there.host != answer.url.host:
                return answer.status
            url = str(there)
    return 508


async def _tcp(host: str, port: int) -> str | None:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return f"dial tcp {host}:{port}: {error.strerror or error}"
    writer.close()
    return None


async def _grpc(check: Object, address: str) -> str | None:
    # Loaded with the drivers' protocols anyway; the health protocol is three fields, written by hand below.
    import grpc

    service = str(check.get("service") or "").encode()
    request = b"\x0a" + bytes([len(service)]) + service if service else b""
    try:
        async with grpc.aio.insecure_channel(f"{address}:{int(check['port'])}") as channel:
            call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
            answer = await call(request)
    except grpc.aio.AioRpcError as error:
        return f"gRPC probe: {error.code().name}: {error.details()}"
    return None if answer == b"\x08\x01" else "gRPC probe: service unhealthy"
