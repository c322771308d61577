"""Plain HTTP, which is for loopback only and by explicit choice.

Without TLS, clients send no credentials, so everybody who reaches the port is trusted. That must not include web
pages: a browser on the same machine sends requests to loopback for any page that asks it to, and a page can give
its own host name a loopback address. So a request must name a loopback host, and one that a browser sent on behalf of
another origin is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from dray.api.caches import remember
from dray.server.listening import ListenError
from dray.server.status import ApiError


@remember(256)
def is_loopback(host: str) -> bool:
    """Returns True for a loopback host, as in a URL or a Host header without port."""
    name = host.lower().removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_listen(host: str) -> None:
    """Raises ListenError unless plain HTTP may be served on the address."""
    if not is_loopback(host):
        raise ListenError(f"plain HTTP on {host} would give every client full access: use TLS, or listen on 127.0.0.1")


def refuse_foreign_origin(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises a 403 for a request that a foreign web page may have caused."""
    hosts, origins, sites = [], [], []
    for name, value in headers:
        lower = name.lower()
        if lower == b"host":
            hosts.append(value.decode("latin-1"))
        elif lower == b"origin":
            origins.append(value.decode("latin-1"))
        elif lower == b"sec-fetch-site":
            sites.append(value)
    if len(hosts) != 1 or not _is_here(hosts[0]):
        raise _forbidden("the Host header does not name this machine")
    # A page served from here has this very host and port; all others are foreign.
    if any(origin.partition("://")[2] != hosts[0] for origin in origins):
        raise _forbidden("a page of another origin sent this")
    if any(site not in (b"same-origin", b"none") for site in sites):
        raise _forbidden("a page of another origin sent this")


@remember(256)
def _is_here(host: str) -> bool:
    return is_loopback(_host_of(f"//{host}"))


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _forbidden(why: str) -> ApiError:
    return ApiError(403, "Forbidden", f"forbidden: {why}")
