"""Names of the API server, in every spelling that a client accepts.

No node may have one of them: with a certificate for it, the node could answer the clients of the server. Compared are
host names without regard to case and a final dot, wildcards on either side, and addresses in all their spellings.
Names of Services count as the server's too, since clients in pods find the server and its webhooks by them.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Final

_ALWAYS: Final = frozenset({"localhost", "kubernetes", "kubernetes.default", "127.0.0.1", "::1"})
_SUFFIXES: Final = (".localhost", ".svc", ".svc.cluster.local")
# Numbers that inet_aton reads, such as 127.1 and 0x7f000001.
_NUMBERS: Final = re.compile(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+)){0,3}", re.ASCII)


def normalized(name: str) -> str:
    """Returns the one spelling of a host name or address."""
    plain = name.strip().lower().rstrip(".")
    try:
        address = ipaddress.ip_address(plain.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return _dotted(plain)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _dotted(name: str) -> str:
    if _NUMBERS.fullmatch(name) is None:
        return name
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return name


def server_name_in(names: Iterable[str], own: Iterable[str]) -> str:
    """Returns the first of the names that may stand for a server with its `own` names; empty if none does."""
    taken = _ALWAYS | {normalized(name) for name in own}
    return next((name for name in names if _stands_for(normalized(name), taken)), "")


def _stands_for(name: str, taken: Iterable[str]) -> bool:
    if name.endswith(_SUFFIXES) or _is_loopback(name):
        return True
    return any(name == other or _covers(name, other) or _covers(other, name) for other in taken)


def _covers(pattern: str, name: str) -> bool:
    """Matches wildcards as clients do, and more: `*` covers every name, and `*.a.b` also covers `a.b`."""
    if pattern == "*":
        return True
    _, _, rest = name.partition(".")
    return pattern.startswith("*.") and pattern[2:] in (rest, name)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_of_one_machine(text: str) -> bool:
    """Returns True if an address can belong to a node: it is not loopback, link-local, multicast or unspecified."""
    address = ipaddress.ip_address(normalized(text))
    return not (address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast)
