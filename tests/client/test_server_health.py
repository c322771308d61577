import asyncio
import socket

import pytest

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ConnectionFailed
from dray.client.http import HttpTransport
from dray.client.interface import GroupVersionResource
from dray.client.retries import Retries
from dray.client.server_health import ServerHealth

from .scripted import Say, Script, Stream, serving

NODES = GroupVersionResource("", "v1", "nodes")


class Clock:
    seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def health(clock):
    return ServerHealth("https://api:6443", clock=clock)


def texts(caplog):
    return [record.getMessage() for record in caplog.records]


def test_an_outage_is_two_lines(health, clock, caplog):
    for _ in range(200):
        health.failed("connection refused")
        clock.seconds += 0.15
    assert health.trouble == "https://api:6443 has not answered for 30 s: connection refused"
    health.heard()
    health.heard()
    assert health.trouble == ""
    assert texts(caplog) == [
        "https://api:6443 does not answer: connection refused",
        "https://api:6443 answers again, after 30 s",
    ]


def test_a_server_that_never_answered_is_reported_at_once(health, clock, caplog):
    health.failed("connection refused")
    assert texts(caplog) == ["https://api:6443 does not answer: connection refused"]


def test_a_server_that_is_back_at_once_was_not_away(health, clock, caplog):
    health.heard()
    for _ in range(5):
        health.failed("connection reset")
        clock.seconds += 2
        health.heard()
    assert (health.trouble, texts(caplog)) == ("", [])


def test_one_silent_connection_among_others_is_no_outage(health, clock, caplog):
    clock.seconds += 20
    health.heard()
    health.failed("no answer within 20 s", silence=20)
    assert texts(caplog) == []
    clock.seconds += 20
    health.failed("no answer within 20 s", silence=20)
    assert texts(caplog) == ["https://api:6443 does not answer: no answer within 20 s"]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_is_not_the_server(health, clock, caplog, status):
    health.heard(status)
    clock.seconds += 5
    health.heard(status)
    assert len(texts(caplog)) == 1
    assert str(status) in health.trouble
    health.heard(500)
    assert health.trouble == ""


async def test_the_transport_tells_what_it_hears(caplog):
    script = Script(Say({"items": []}), Stream([b"{}\n"], "hang"))
    no_retries = Retries(attempts=1)
    async with serving(script) as address:
        health = ServerHealth(address, patience=0.05)
        transport = HttpTransport(Endpoint(address), silence=0.2, health=health)
        client = ApiClient(transport, retries=no_retries)
        await client.list(NODES)
        with pytest.raises(ConnectionFailed, match=r"^GET /api/v1/nodes: no answer within 0.2 s$"):
            await client.list(NODES)
    with pytest.raises(ConnectionFailed, match=r"^POST /api/v1/nodes: .+"):
        await client.create(NODES, {})
    await asyncio.sleep(0.1)
    with pytest.raises(ConnectionFailed):
        await client.list(NODES)
    assert health.trouble.startswith(f"{address} has not answered for ")
    port = int(address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as listener:
        loop = asyncio.get_running_loop()
        asking = asyncio.create_task(client.list(NODES))
        connection, _ = await loop.run_in_executor(None, listener.accept)
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await asking
    assert health.trouble == ""
    assert len(texts(caplog)) == 2
    await transport.close()
