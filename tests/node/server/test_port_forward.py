"""Ports of pods, with kubectl (SPDY in a WebSocket) and with the Python client (channels)."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import re
import socket
import sys

import aiohttp
import pytest

from dray.node.server import port_forward
from dray.node.server.port_forward import PortForwarding
from dray.node.server.spdy import frames
from dray.node.server.spdy.connection import Connection
from dray.node.server.spdy.frames import FrameReader
from dray.node.server.spdy.headers import HeaderReader, HeaderWriter, ProtocolError
from dray.node.server.spdy_streams import SpdyStreams
from tests.node.server.conftest import pod, shell

STREAMS = int(os.environ.get("DRAY_SPDY_STREAMS", "5000"))
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * int(self.path[1:])
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        size = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200); self.end_headers(); self.wfile.write(b"%d" % size)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
async def port(machine):
    """Of a web server in a pod."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    await machine.create(pod("p", {"command": [sys.executable, "-c", SERVER, str(port)]}))
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return port


@pytest.mark.parametrize("way", [{}, {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}], ids=["websocket", "spdy"])
async def test_kubectl_port_forward(machine, port, way):
    process = await machine.start_kubectl("port-forward", "pod/p", f":{port}", **way)
    try:
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        local = int(re.match(r"Forwarding from 127.0.0.1:(\d+) -> ", line)[1])
        async with aiohttp.ClientSession(f"http://127.0.0.1:{local}") as session:

            async def fetch(size):
                async with session.get(f"/{size}") as answer:
                    return len(await answer.read())

            sizes = [1, 100_000, 5_000_000, 7, 0]
            assert await asyncio.gather(*map(fetch, sizes)) == sizes
            async with session.post("/", data=io.BytesIO(b"y" * 3_000_000)) as answer:
                assert await answer.text() == "3000000"
    finally:
        process.terminate()
        await process.communicate()


async def test_kubectl_port_forward_to_a_port_that_nobody_listens_on(machine, port):
    process = await machine.start_kubectl("port-forward", "pod/p", ":1")
    try:
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
            local = int(re.match(r"Forwarding from 127.0.0.1:(\d+) -> ", line)[1])
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            assert await reader.read() == b""
            writer.close()
            said = (await process.stderr.readline()).decode()
        assert "error forwarding port 1 to pod p" in said
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_channels(machine, port):
    path = f"/api/v1/namespaces/default/pods/p/portforward?ports={port}"
    async with machine.http.ws_connect(path, protocols=["v4.channel.k8s.io"]) as client:
        for channel in (0, 1):
            assert (await client.receive(10)).data == bytes((channel,)) + port.to_bytes(2, "little")
        await client.send_bytes(b"\0GET /5 HTTP/1.0\r\n\r\n")
        text = b""
        async for message in client:
            assert message.data[0] == 0
            text += message.data[1:]
    assert text.endswith(b"\r\n\r\nxxxxx")


async def test_refusals(machine):
    await machine.create(pod("p", shell("true")), "Succeeded")
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    path = "/api/v1/namespaces/default/pods/p/portforward"
    async with machine.http.get(path, headers=headers) as answer:
        assert answer.status == 404
        assert 'pod "p" is not running' in (await answer.json())["message"]
    async with machine.http.get(path) as answer:
        assert answer.status == 400


def test_headers_of_streams():
    writer, reader = HeaderWriter(), HeaderReader()
    for headers in ({"streamtype": "data", "port": "80", "requestid": "0"}, {}, {"streamtype": "error"}):
        assert reader.read(writer.write(headers)) == headers
    with pytest.raises(ProtocolError):
        reader.read(b"nonsense")
    with pytest.raises(ProtocolError):
        HeaderReader().read(HeaderWriter().write({"a": "b" * 100_000}))


def test_a_frame_that_is_too_long_is_refused():
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(b"\0\0\0\1\0\xff\xff\xff"))


class Opener:
    """The bytes of a client that opens and resets streams."""

    def __init__(self):
        self._headers = HeaderWriter()
        self._numbers = itertools.count(1, 2)

    def open(self, request, kind="error"):
        number = next(self._numbers)
        block = self._headers.write({"requestid": request, "streamtype": kind, "port": "1"})
        return number, frames.control(frames.SYN_STREAM, number.to_bytes(4, "big") + bytes(6) + block)

    def reset(self, number):
        return frames.control(frames.RST_STREAM, number.to_bytes(4, "big") + frames.CANCEL.to_bytes(4, "big"))


class Forwarding:
    """Port forwarding without a pod, over what a test gives it."""

    def __init__(self):
        self.sent = []
        self.forwarding = PortForwarding(None, None)
        self.connection = Connection(self._send, self.forwarding._opened, self.forwarding._was_reset)

    async def _send(self, data):
        self.sent.append(data[:4])

    async def serve(self, received):
        await self.forwarding.serve(self.connection, received)

    def resets(self):
        return self.sent.count(frames.control(frames.RST_STREAM, b"")[:4])


async def test_streams_that_are_reset_before_their_pair_comes_leave_nothing():
    node, client, most = Forwarding(), Opener(), [0]

    async def received():
        for each in range(STREAMS):
            number, opened = client.open(f"request-{each}")
            yield opened + client.reset(number)
            most.append(len(node.forwarding.waiting))
            node.sent.clear()

    async with asyncio.timeout(120):
        await node.serve(received())
    assert max(most) <= 1


async def test_few_streams_wait_for_their_pair_and_not_for_ever(monkeypatch):
    node, client = Forwarding(), Opener()
    monkeypatch.setattr(port_forward, "_PAIR_SECONDS", 0.2)

    async def received():
        for each in range(200):
            yield client.open(f"request-{each}")[1]
        assert len(node.forwarding.waiting) <= 64
        while node.forwarding.waiting:
            await asyncio.sleep(0.02)
        while node.resets() < 200:
            await asyncio.sleep(0.02)

    async with asyncio.timeout(20):
        await node.serve(received())
    assert node.resets() == 200


async def test_bytes_that_nobody_reads_are_bounded():
    """The client is read no further before a stream is given up."""
    node, client, sent = Forwarding(), Opener(), []
    mebibyte = bytes(1 << 20)

    async def received():
        opened = [client.open(f"request-{each}", "data") for each in range(40)]
        for _, data in opened:
            yield data
        for number, _ in opened:
            yield frames.data(number, mebibyte)
            sent.append(number)

    serving = asyncio.create_task(node.serve(received()))
    async with asyncio.timeout(20):
        while not sent:
            await asyncio.sleep(0.02)
    done, _ = await asyncio.wait((serving,), timeout=0.3)
    assert not done
    assert len(sent) < 8
    serving.cancel()
    await asyncio.wait((serving,))
    assert not node.forwarding.waiting


async def test_streams_of_a_command_are_those_of_its_kinds_alone():
    class Socket:
        async def send_bytes(self, data):
            pass

    streams, client = SpdyStreams(Socket(), frozenset({"input"})), Opener()
    for each in range(2000):
        number, opened = client.open(str(each), f"kind-{each}")
        for data in (opened, client.reset(number)):
            for frame in FrameReader().feed(data):
                await streams._connection._take(frame)
    assert not streams._streams
