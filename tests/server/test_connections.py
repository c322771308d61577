"""Connections that wait too long or are too many are closed, those of strangers first."""

import json
import logging
import socket
import ssl
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress

import pytest

from dray.server import connections, running
from dray.server.connections import Connections
from tests.server.process import listening

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    def __init__(self, name, *, busy=False, head_since=0.0, paused_since=0.0, unread=0):
        self.name, self.busy, self.head_since = name, busy, head_since
        self.paused_since, self.unread = paused_since, unread
        self.aborted = False

    def abort(self):
        self.aborted = True


@pytest.fixture
def room(monkeypatch):
    monkeypatch.setattr(Connections, "_look_later", lambda self: None)
    return Connections(8)


def open_all(room, clients, *, known=False):
    for client in clients:
        room.opened(client)
        if known:
            room.recognised(client)


def aborted(clients):
    return [client.name for client in clients if client.aborted]


def test_strangers_have_half_of_the_room(room, caplog):
    strangers = [Client(number) for number in range(7)]
    open_all(room, strangers)
    assert aborted(strangers) == [0, 1, 2]
    assert len(room) == 4
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    friends = [Client(number) for number in range(4)]
    open_all(room, friends, known=True)
    assert not aborted(friends)
    assert len(room) == 7


def test_those_who_work_are_spared_as_long_as_others_wait(room):
    working = [Client(number, busy=True) for number in range(3)]
    waiting = [Client(f"w{number}") for number in range(4)]
    open_all(room, [*working, *waiting])
    assert aborted([*working, *waiting]) == ["w0", "w1", "w2"]
    more = [Client(f"m{number}", busy=True) for number in range(2)]
    open_all(room, more)
    assert aborted(working) == [0]


def test_when_all_is_taken_the_oldest_idle_client_goes(room):
    friends = [Client(number, busy=number == 0) for number in range(8)]
    open_all(room, friends, known=True)
    newcomer = Client("new")
    room.opened(newcomer)
    assert (aborted(friends), newcomer.aborted) == ([1], False)


def test_heads_that_do_not_end_and_answers_that_nobody_reads(room):
    slow, quick, idle = Client("slow", head_since=10.0), Client("quick", head_since=35.0), Client("idle")
    deaf, reading = Client("deaf", paused_since=1.0), Client("reading", paused_since=60.0)
    open_all(room, [slow, quick, idle, deaf, reading], known=True)
    room.paused(deaf)
    room.paused(reading)
    room.look(now=62.0)
    assert aborted([slow, quick, idle, deaf, reading]) == ["slow", "deaf"]


def test_what_nobody_reads_is_bounded_in_bytes(room, monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD", 1000)
    clients = [Client(number, paused_since=1.0 + number, unread=400) for number in range(4)]
    open_all(room, clients, known=True)
    for client in clients[:2]:
        room.paused(client)
    assert aborted(clients) == []
    # Whoever reads again is spared, and nobody has to be looked at for that.
    room.resumed(clients[0])
    for client in clients[2:]:
        room.paused(client)
    assert aborted(clients) == [1]
    room.paused(Client("huge", unread=5000))
    assert aborted(clients) == [1, 2, 3]


@contextmanager
def connected(server):
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30) as client:
        yield client


def test_the_head_of_every_request_has_its_time(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(connections, "_INTERVAL", 0.1)
    with listening() as server, connected(server) as client:
        for _ in range(2):
            client.sendall(HEALTH)
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            # Idle for longer than a head may take.
            time.sleep(0.8)
        began = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT012 - which of them fails depends on the kernel's buffers
            for byte in HEALTH[:-1]:
                client.sendall(bytes([byte]))
                time.sleep(0.1)
        assert time.monotonic() - began < 3


def test_a_crowd_of_strangers_keeps_nobody_out(monkeypatch, caplog):
    monkeypatch.setattr(running, "most_connections", lambda: 40)
    with listening(plain=False) as server, ExitStack() as crowd:
        context = ssl._create_unverified_context()
        for _ in range(60):
            raw = crowd.enter_context(connected(server))
            crowd.enter_context(context.wrap_socket(raw)).sendall(HEALTH)
        request = urllib.request.Request(f"{server.url}/api/v1/namespaces")
        request.add_header("Authorization", f"Bearer {server.context.security.admin_token}")
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            assert json.load(answer)["items"]
    assert sum("too many connections" in record.message for record in caplog.records) == 1


def test_a_list_that_is_not_read_holds_no_memory_and_does_not_stop_others(monkeypatch):
    """Each of them would have been a body of 20 MB."""
    monkeypatch.setattr(connections, "STALLED_SECONDS", 2.0)
    monkeypatch.setattr(connections, "_INTERVAL", 0.2)
    with listening() as server, ExitStack() as deaf:
        maps = f"{server.url}/api/v1/namespaces/default/configmaps"
        for number in range(40):
            body = json.dumps({"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 500_000}}).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(urllib.request.Request(maps, data=body, headers=headers), timeout=30).close()
        before = resident()
        clients = [deaf.enter_context(connected(server)) for _ in range(30)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /api/v1/configmaps HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.5)
        with urllib.request.urlopen(f"{server.url}/api/v1/configmaps", timeout=20) as answer:
            names = [each["metadata"]["name"] for each in json.load(answer)["items"]]
        assert len([each for each in names if each.startswith("m")]) == 40
        assert resident() - before < 200_000_000
        deadline = time.monotonic() + 30
        while server.application._long_answers and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not len(server.application._long_answers)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_client_that_does_not_begin_with_tls_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.5)
    with listening(plain=False) as server, connected(server) as client:
        began = time.monotonic()
        with suppress(ConnectionError):
            assert client.recv(10) == b""
        assert time.monotonic() - began < 25
