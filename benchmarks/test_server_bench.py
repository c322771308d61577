"""What the API server costs: CPU per request beside an empty application on the same uvicorn, lists, watches, updates.

Both servers run in processes of their own; their CPU time is read from the kernel, so that what else the machine does
matters little. The bounds are those the project promises.
"""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import msgspec
import pytest

from dray.server.api_server import ApiServer
from dray.server.context import Context
from dray.server.requests import Request
from dray.store.memory import MemoryStore

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "bench/1"}
CONNECTIONS = 16

EMPTY = """
import sys, uvicorn
BODY = b"x" * 700
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while scope["method"] != "GET" and (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"700")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="error",
            access_log=False, server_header=False, date_header=False)
"""


def claim(name, step=0):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "labels": {"step": str(step)}},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                        },
                    }
                ]
            }
        },
    }


@contextmanager
def process(*command):
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(10)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def connect(port):
    for _ in range(200):
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
    raise TimeoutError(f"nobody listens on {port}")


async def ask(reader, writer, method, path, body=b""):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
    head += f"Content-Type: application/json\r\nUser-Agent: bench/1\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(answer[9:12]), await reader.readexactly(length)


async def load(port, count, request):
    """Sends `count` requests over several connections; `request(connection, number)` makes one."""

    async def client(number):
        reader, writer = await connect(port)
        for index in range(count // CONNECTIONS):
            code, body = await ask(reader, writer, *request(number, index))
            assert code in (200, 201), body
        writer.close()

    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))


def microseconds(pid, port, count, request):
    asyncio.run(load(port, count // 10, request))
    before = cpu_seconds(pid)
    asyncio.run(load(port, count, request))
    return (cpu_seconds(pid) - before) / count * 1e6


def get(number, index):
    return "GET", f"{CLAIMS}/c{number}"


def put(number, index):
    return "PUT", f"{CLAIMS}/c{number}", msgspec.json.encode(claim(f"c{number}", index))


def post(number, index):
    container = {"name": "main", "image": "registry.example.com/train:1.0", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    body = {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], "resourceClaims": claims}}
    return "POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(body)


@pytest.fixture(scope="module")
def servers(tmp_path_factory, unused_ports):
    """The pids of an empty application and of a server that keeps its objects in SQLite, and their ports."""
    empty_port, port = unused_ports
    data = tmp_path_factory.mktemp("data")
    main = "from dray.cli import main; main()"
    options = ("--data", str(data), "--insecure-http", "--port", str(port))
    command = (sys.executable, "-c", main, "apiserver", *options)
    with process(sys.executable, "-c", EMPTY, str(empty_port)) as empty, process(*command) as server:

        async def prepare():
            reader, writer = await connect(port)
            for number in range(CONNECTIONS):
                code, body = await ask(reader, writer, "POST", CLAIMS, msgspec.json.encode(claim(f"c{number}")))
                assert code == 201, body
            writer.close()

        asyncio.run(prepare())
        yield (empty, empty_port), (server, port)


@pytest.fixture(scope="module")
def unused_ports():
    import socket

    found = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            found.append(probe.getsockname()[1])
    return found


@pytest.mark.parametrize(
    ("request_", "bound"), [(get, 2), (put, 5), (post, 12)], ids=["get", "durable put", "durable post of a pod"]
)
def test_cpu_per_request_beside_an_empty_application(benchmark, servers, request_, bound):
    (empty, empty_port), (server, port) = servers
    count = 8000
    found = []
    for _ in range(3):
        base = microseconds(empty, empty_port, count, request_)
        own = microseconds(server, port, count, request_)
        found.append((own / base, base, own))
    ratio, base, own = min(found)
    benchmark.extra_info.update(empty_us=round(base, 1), server_us=round(own, 1), ratio=round(ratio, 2))
    benchmark.pedantic(lambda: None, rounds=1)
    assert ratio <= bound, found


async def started():
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    return server


def test_list_of_ten_thousand_claims(benchmark):
    async def prepare():
        server = await started()
        for index in range(10_000):
            body = msgspec.json.encode(claim(f"c{index}"))
            await server.handle(Request("POST", CLAIMS, headers=HEADERS, body=body))
        return server

    with asyncio.Runner() as runner:
        server = runner.run(prepare())
        answer = benchmark(lambda: runner.run(server.handle(Request("GET", CLAIMS, headers=HEADERS))))
        assert len(msgspec.json.decode(answer.body)["items"]) == 10_000
        assert benchmark.stats["median"] < 0.5
        runner.run(server.close())


def test_update_in_process(benchmark):
    with asyncio.Runner() as runner:
        server = runner.run(started())
        runner.run(server.handle(Request("POST", CLAIMS, headers=HEADERS, body=msgspec.json.encode(claim("c")))))

        async def many(count=500):
            began = time.perf_counter()
            for index in range(count):
                body = msgspec.json.encode(claim("c", index))
                answer = await server.handle(Request("PUT", f"{CLAIMS}/c", headers=HEADERS, body=body))
                assert answer.code == 200
            return (time.perf_counter() - began) / count

        each = benchmark.pedantic(lambda: runner.run(many()), rounds=5)
        benchmark.extra_info["update_us"] = round(each * 1e6, 1)
        assert benchmark.stats["min"] / 500 < 150e-6
        runner.run(server.close())


def test_a_thousand_watchers_hear_of_an_event(benchmark):
    async def prepare():
        server = await started()
        streams = []
        for _ in range(1000):
            answer = await server.handle(Request("GET", CLAIMS, "watch=1&resourceVersion=0", HEADERS))
            streams.append(aiter(answer.chunks))
        return server, streams

    with asyncio.Runner() as runner:
        server, streams = runner.run(prepare())
        numbers = iter(range(1_000_000))

        async def tell():
            waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
            await asyncio.sleep(0)
            body = msgspec.json.encode(claim(f"c{next(numbers)}"))
            began = time.perf_counter()
            await server.handle(Request("POST", CLAIMS, headers=HEADERS, body=body))
            await asyncio.gather(*waiting)
            return time.perf_counter() - began

        runner.run(tell())
        took = benchmark.pedantic(lambda: runner.run(tell()), rounds=10)
        assert took < 0.1
        for stream in streams:
            runner.run(stream.aclose())
        runner.run(server.close())
