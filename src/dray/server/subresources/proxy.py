"""`pods/proxy` and `services/proxy`: requests go through the server to a pod, or to an endpoint of a Service.

The name may say how: `https:web:443` is the port 443 of `web`, over TLS that nobody checks, as in Kubernetes. A port is
a number or a name. Addresses that mean this machine are refused, in whatever form they are written: what is in the
status of a pod must not lead to what only the server reaches. Headers that are between the client and this server do
not go on. Connections are not upgraded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from dray.api import names
from dray.api.objects import Object, mappings, spec_of, status_of
from dray.api.validation import addresses
from dray.server import status, webhook_services
from dray.server.admission import parts
from dray.server.calls import Call
from dray.server.http_client import told
from dray.server.kubelets import client
from dray.server.kubelets.client import Body
from dray.server.parameters import WriteOptions
from dray.server.part_kinds import POD_PROXY_OPTIONS, SERVICE_PROXY_OPTIONS, PartKind
from dray.server.requests import Answer, Response, Stream
from dray.server.webhook_services import NoAddress

if TYPE_CHECKING:
    import aiohttp

_LONGEST: Final = 16 << 20
_OWN: Final = frozenset(
    "accept-encoding authorization connection content-length expect host keep-alive proxy-authorization "
    "proxy-connection te trailer transfer-encoding upgrade".split()
)
_PASSED: Final = "content-type content-encoding location cache-control etag last-modified www-authenticate".split()


@dataclass(frozen=True, slots=True)
class Target:
    scheme: str
    name: str
    port: str


def parse(text: str) -> Target | None:
    """Parses `[scheme:]name[:port]`; returns None if it is invalid."""
    match text.split(":"):
        case [name]:
            found = Target("http", name, "")
        case [name, port]:
            found = Target("http", name, port)
        case [scheme, name, port] if scheme in ("", "http", "https"):
            found = Target(scheme or "http", name, port)
        case _:
            return None
    return found if names.is_subdomain(found.name) else None


async def pod(call: Call) -> Answer:
    target, named = _named(call, "pod")
    found = await named.stored()
    address = str(status_of(found).get("podIP") or "")
    if not address:
        raise status.bad_request(f"pod {target.name} has no address yet")
    return await _pass(named, target, POD_PROXY_OPTIONS, address, _pod_port(target, found))


async def service(call: Call) -> Answer:
    target, named = _named(call, "service")
    found = await named.stored()
    wanted = _service_port(target, found)
    try:
        if spec_of(found).get("type") == "ExternalName":
            # As in Kubernetes: otherwise a user could reach every address that the server reaches.
            raise NoAddress(f'no endpoints available for service "{target.name}"')
        address, port = webhook_services.resolve(call.context, call.path.namespace, target.name, wanted)
    except NoAddress as error:
        raise status.ApiError(503, "ServiceUnavailable", str(error)) from error
    return await _pass(named, target, SERVICE_PROXY_OPTIONS, address, port)


def _named(call: Call, kind: str) -> tuple[Target, Call]:
    target = parse(call.path.name)
    if target is None:
        raise status.bad_request(f'invalid {kind} request "{call.path.name}"')
    path = replace(call.path, name=target.name)
    return target, Call(call.context, call.request, call.resource, path, call.query)


def _pod_port(target: Target, found: Object) -> int:
    ports = [port for one in mappings(spec_of(found).get("containers")) for port in mappings(one.get("ports"))]
    if not target.port:
        return int(ports[0]["containerPort"]) if ports else 80
    return (
        _number(target)
        or next((int(port["containerPort"]) for port in ports if port.get("name") == target.port), 0)
        or _no_port(target)
    )


def _service_port(target: Target, found: Object) -> int:
    ports = mappings(spec_of(found).get("ports"))
    for port in ports:
        if target.port in (port.get("name"), str(port["port"])) or (not target.port and len(ports) == 1):
            return int(port["port"])
    message = f'no service port "{target.port}" found for service "{target.name}"'
    raise status.ApiError(503, "ServiceUnavailable", message)


def _number(target: Target) -> int:
    text = target.port
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 65536 else 0


def _no_port(target: Target) -> int:
    raise status.bad_request(f'pod {target.name} has no port "{target.port}"')


async def _pass(call: Call, target: Target, kind: PartKind, address: str, port: int) -> Answer:
    given = {"path": f"/{call.path.rest}"} if call.path.rest else {}
    options = await parts.admit(call.write(WriteOptions(), "connect"), parts.CONNECT, given, kind)
    if "upgrade" in call.request.headers:
        raise status.not_implemented("connections through a proxy are not upgraded: use port-forward")
    host = _proxyable(address)
    path = quote(str(options.get("path") or "/"))
    answer = await _request(call, f"{target.scheme}://{host}:{port}{path}")
    # Headers that are not ASCII are dropped.
    plain = {name: value for name in _PASSED if (value := answer.headers.get(name, "")) and value.isascii()}
    content_type = plain.pop("content-type", "text/plain; charset=utf-8")
    encoding = plain.get("content-encoding", "")
    if answer.status == 200 and call.request.method == "GET":
        return Stream(Body(answer), content_type=content_type, encoding=encoding, from_node=True)
    return Response(answer.status, await _read(answer), content_type, plain, final=bool(encoding))


def _proxyable(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        raise status.bad_request(f"address {address[:100]!r} is not an IP address") from None
    meant = addresses.meant(found)
    if meant.is_loopback or meant.is_link_local or meant.is_multicast or meant.is_unspecified:
        raise status.ApiError(403, "Forbidden", f"address not allowed: {address}")
    return f"[{address}]" if found.version == 6 else address


def _passed_on(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers to pass on, without credentials and headers of the connection."""
    own = _OWN | {name.strip().lower() for name in given.get("connection", "").split(",")}
    return {name: value for name, value in given.items() if name not in own and not name.startswith("impersonate-")}


async def _request(call: Call, url: str) -> aiohttp.ClientResponse:
    session = await call.context.kubelets.session()
    import aiohttp

    request = call.request
    target = f"{url}?{request.query}" if request.query else url
    try:
        async with asyncio.timeout(client.ANSWER_SECONDS):
            return await session.request(
                request.method,
                target,
                data=request.body or None,
                headers=_passed_on(request.headers),
                ssl=False,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=client.DIAL_SECONDS),
            )
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise _unreached(error) from error


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    import aiohttp

    found = bytearray()
    try:
        async with asyncio.timeout(client.ANSWER_SECONDS):
            while chunk := await answer.content.read(client.CHUNK):
                found += chunk
                if len(found) > _LONGEST:
                    raise status.ApiError(502, "InternalError", f"the answer has more than {_LONGEST} bytes")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreached(error) from error
    finally:
        answer.close()
    return bytes(found)


def _unreached(error: Exception) -> status.ApiError:
    message = f"error trying to reach service: {told(error)}"
    return status.ApiError(503, "ServiceUnavailable", message)
