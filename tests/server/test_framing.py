"""No request can be hidden in another: heads and bodies that two servers may read in different ways are refused."""

from __future__ import annotations

import re
import socket
import time
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.server.process import listening

HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /api/v1/namespaces HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
# What would be answered with 200 if it were taken for a request.
HIDDEN = b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with listening() as server:
        url = urllib.parse.urlsplit(server.url)
        yield url.hostname or "", url.port or 0


def exchange(address: tuple[str, int], *pieces: bytes) -> list[int]:
    """The codes of all answers until the server closes the connection; pieces most likely arrive one by one."""
    received = b""
    with socket.create_connection(address, timeout=20) as connection:
        try:
            for number, piece in enumerate(pieces):
                time.sleep(0.05 if number else 0)
                connection.sendall(piece)
            while data := connection.recv(65536):
                received += data
        except ConnectionError:
            pass
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


AMBIGUOUS = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" + HIDDEN,
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}" + HIDDEN,
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}" + HIDDEN,
    "a length without end": POST + b"Content-Length: 99999999999999999999999\r\n\r\n{}" + HIDDEN,
    "another coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks are not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "identity and chunks": POST + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "gzip and chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks in HTTP 1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a folded header": POST + b"X: y\r\n z\r\nContent-Length: 2\r\n\r\n{}" + HIDDEN,
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n{}" + HIDDEN,
    "lines without CR": b"GET /livez HTTP/1.1\nHost: 127.0.0.1\n\n" + HIDDEN,
    "lines without LF": b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\rX: y\r\n\r\n" + HIDDEN,
    "a NUL": b"GET /livez HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n" + HIDDEN,
    "no host": b"GET /livez HTTP/1.1\r\n\r\n" + HIDDEN,
    "two hosts": b"GET /livez HTTP/1.1\r\nHost: other\r\n" + HOST + b"\r\n" + HIDDEN,
    "no version": b"GET /livez\r\n\r\n" + HIDDEN,
    "a later version": b"GET /livez HTTP/1.2\r\n" + HOST + b"\r\n" + HIDDEN,
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT other:80 HTTP/1.1\r\n" + HOST + b"\r\n" + HIDDEN,
    "a chunk of odd size": CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk of no size": CHUNKED + b"FFFFFFFFFFFFFFFF1\r\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a chunk without its end": CHUNKED + b"2\r\n{}0\r\n\r\n" + HIDDEN,
    "a chunk extension that ends with LF": CHUNKED + b"2;\n{}\r\n0\r\n\r\n" + HIDDEN,
    "a trailer that is a length": CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 3\r\n\r\n" + HIDDEN,
}


@pytest.mark.parametrize("sent", AMBIGUOUS.values(), ids=list(AMBIGUOUS))
def test_what_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    address: tuple[str, int], sent: bytes
) -> None:
    assert exchange(address, sent) == [400]


@pytest.mark.parametrize("upgrade", [b"h2c", b"foo", b"h2c, websocket"])
def test_the_body_of_a_request_whose_upgrade_is_ignored_is_no_request(address: tuple[str, int], upgrade: bytes) -> None:
    wanted = b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(HIDDEN)
    assert exchange(address, POST + wanted + length + HIDDEN + LAST) == [400, 200]
    assert exchange(address, POST + wanted + length, HIDDEN + LAST) == [400, 200]
    chunk = b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"
    assert exchange(address, POST + wanted + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + LAST) == [400, 200]


def test_a_client_that_asks_for_http_2_is_answered_in_http_1(address: tuple[str, int]) -> None:
    wanted = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    body = b'{"metadata":{"name":"upgraded"}}'
    post = POST + wanted + b"Content-Length: %d\r\n\r\n" % len(body) + body
    get = b"GET /livez HTTP/1.1\r\n" + HOST + wanted + b"\r\n"
    assert exchange(address, get, post + LAST) == [200, 201, 200]


def test_nothing_follows_a_request_for_a_tunnel(address: tuple[str, int]) -> None:
    for upgrade in (b"websocket", b"SPDY/3.1"):
        get = b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
        assert exchange(address, get + HIDDEN) == [200]


def test_requests_in_a_row_are_answered_in_their_order(address: tuple[str, int]) -> None:
    missing = HIDDEN.replace(b"/livez", b"/api/v1/namespaces/none")
    assert exchange(address, (HIDDEN + missing) * 200 + LAST) == [200, 404] * 200 + [200]


def test_chunks_may_have_extensions_and_requests_without_body_a_body(address: tuple[str, int]) -> None:
    assert exchange(address, CHUNKED + b"2;a=b\r\n{}\r\n0\r\n\r\n" + LAST) == [422, 200]
    with_body = b"GET /livez HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN
    assert exchange(address, with_body + LAST) == [200, 200]


@pytest.mark.parametrize(
    "long", [b"X: " + b"a" * 200_000, b"\r\n".join(b"X%d: a" % number for number in range(20_000))]
)
def test_a_head_without_end_is_cut_off(address: tuple[str, int], long: bytes) -> None:
    assert exchange(address, b"GET /livez HTTP/1.1\r\n" + HOST + long + b"\r\n\r\n") == []
    assert exchange(address, LAST) == [200]


def test_clients_that_do_not_speak_http_do_not_fill_the_log(
    address: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        assert exchange(address, b"\x16\x03\x01\x02\x00" + b"\0" * 100) == [400]
    assert caplog.text.count("not HTTP") <= 2
