"""The socket a server listens on, and what keeps it from listening, in words that name the address and a way out."""

from __future__ import annotations

import errno
import socket
from typing import Final

_LAST_PORT: Final = 65535


WILDCARDS: Final = ("0.0.0.0", "::", "")


class ListenError(ValueError):
    """Raised if the server cannot, or must not, listen on an address."""


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio switches Nagle's algorithm off for every connection: 40 ms an answer.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise ListenError(why_not(host, port, error)) from error
    made.set_inheritable(False)
    return made


def own_address(towards: str = "192.0.2.1") -> str:
    """Returns the address of this machine on the route to another; sends nothing."""
    with socket.socket(socket.AF_INET6 if ":" in towards else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((towards, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def why_not(host: str, port: int, error: OSError | OverflowError) -> str:
    """Returns a message for a failure to bind, with a way out."""
    place = f"{f'[{host}]' if ':' in host else host}:{port}"
    if not 0 <= port <= _LAST_PORT:
        return f"cannot listen on {place}: a port is a number from 0 to {_LAST_PORT}"
    if isinstance(error, OverflowError):
        return f"cannot listen on {place}: {error}"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {place}: this machine has no address {host}"
    if error.errno == errno.EADDRINUSE:
        return f"{place} is in use; choose another --port, or 0 for any that is free"
    if error.errno == errno.EACCES:
        return f"cannot listen on {place}: permission denied; choose another --port, such as 6443"
    return f"cannot listen on {place}: {error.strerror or error}"
