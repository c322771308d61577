"""What keeps a server from listening, in words."""

import errno
import os
import socket

import pytest

from dray.server.listening import ListenError, listen, why_not


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("host", "port", "failure", "said"),
    [
        ("127.0.0.1", 443, error(errno.EACCES), "cannot listen on 127.0.0.1:443: permission denied; choose another"),
        ("::1", 6443, error(errno.EADDRINUSE), "[::1]:6443 is in use; choose another --port"),
        ("192.0.2.1", 1, error(errno.EADDRNOTAVAIL), "cannot listen on 192.0.2.1:1: this machine has no address"),
        ("no such", 1, socket.gaierror(-2, "unknown"), "cannot listen on no such:1: this machine has no address"),
        ("127.0.0.1", 70000, OverflowError(), "cannot listen on 127.0.0.1:70000: a port is a number from 0 to 65535"),
        ("127.0.0.1", 1, error(errno.ENFILE), "cannot listen on 127.0.0.1:1: Too many open files"),
    ],
)
def test_every_reason_names_the_address(host: str, port: int, failure: OSError | OverflowError, said: str) -> None:
    assert why_not(host, port, failure).startswith(said)


@pytest.mark.parametrize("port", [-1, 65536, 1 << 70])
def test_a_port_that_cannot_be(port: int) -> None:
    with pytest.raises(ListenError, match="a port is a number"):
        listen("127.0.0.1", port)
