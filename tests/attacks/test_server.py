"""Clients, webhooks and limits that could take the server away from others: all of them beside a probe and a canary."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from tests.attacks.cluster import LAB, Cluster, retried, started
from tests.attacks.processes import resident
from tests.cli.running import eventually
from tests.server.hooks import GROUP, make_authority

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
WATCHERS = int(os.environ.get("DRAY_SLOW_WATCHERS") or 1000)
WRITERS = 40
SIZE = 200_000
# With the last event kept for each watcher it would be more. What waits for clients to read it is bounded for all
# connections together: 256 MiB in their buffers, and as much that is ready to be put there.
MOST_BYTES = min(WATCHERS * SIZE, 640 << 20)


def config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x" * size}}


def address(cluster: Cluster) -> tuple[str, int]:
    url = urlsplit(cluster.url)
    return url.hostname or "", url.port or 0


def watchers_that_do_not_read(cluster: Cluster) -> None:
    before = resident(cluster.pid)
    with ExitStack() as open_connections:
        for _ in range(WATCHERS):
            connection = open_connections.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(address(cluster))
            connection.sendall(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: {address(cluster)[0]}\r\n\r\n".encode())
        for number in range(3):
            cluster.create(MAPS, config_map(f"large-{number}", SIZE))
        # Memory that was in use for a moment does not count, and what is kept does.
        eventually(lambda: resident(cluster.pid) - before < MOST_BYTES)


class Hook:
    """A webhook that answers as its path says, on a loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._bundle, self._tls = make_authority()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(30)

    async def _serve(self) -> web.AppRunner:
        application = web.Application(client_max_size=2**24)
        application.router.add_post("/{name}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return runner

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Slowly, piece by piece, or without end."""
        response = web.StreamResponse()
        await response.prepare(request)
        endless = request.match_info["name"] == "endless"
        try:
            while True:
                await response.write(b" " * (1 << 20 if endless else 1))
                await asyncio.sleep(0 if endless else 0.05)
        except (ConnectionError, asyncio.CancelledError):
            return response

    def configuration(self, name: str) -> dict[str, Any]:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        client = {"url": f"https://127.0.0.1:{self._runner.addresses[0][1]}/{name}", "caBundle": self._bundle}
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": client,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        return {"metadata": {"name": name}, "webhooks": [webhook]}

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


def webhooks_that_are_slow_or_do_not_end(cluster: Cluster) -> None:
    hook = Hook()
    before = resident(cluster.pid)
    try:
        for kind, name in (("mutating", "endless"), ("validating", "slow")):
            path = f"{GROUP}/{kind}webhookconfigurations"
            cluster.create(path, hook.configuration(name))
            with ThreadPoolExecutor(WRITERS) as writers:
                waiting = [writers.submit(cluster.request, "POST", MAPS, config_map("m")) for _ in range(WRITERS)]
                # Writes of other kinds need not wait for it.
                cluster.create(SECRETS, {"metadata": {"name": name}})
                assert {response.result().status for response in waiting} == {500}
            assert cluster.request("DELETE", f"{path}/{name}").status == 200
    finally:
        hook.close()
    assert resident(cluster.pid) - before < 640 << 20
    cluster.create(MAPS, config_map("m"))


@contextmanager
def no_more_descriptors(pid: int) -> Iterator[None]:
    """Inside, the process may open no descriptor beyond the highest that it has; what is open stays open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(descriptor.name) for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def exhausted_descriptors(cluster: Cluster) -> None:
    kept = http.client.HTTPConnection(*address(cluster), timeout=30)
    kept.request("GET", "/livez")
    assert kept.getresponse().read() == b"ok"
    with ExitStack() as open_connections, no_more_descriptors(cluster.pid):
        # Those that were free before are soon taken.
        for _ in range(100):
            connection = open_connections.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(address(cluster))
        before = processor_seconds(cluster.pid)
        time.sleep(1.0)
        assert processor_seconds(cluster.pid) - before < 0.8, "it waits for a descriptor, and does not look for one"
        # Those who are there are served, and what they write is kept.
        kept.request("POST", MAPS, json.dumps(config_map("meanwhile")), {"Content-Type": "application/json"})
        answer = kept.getresponse()
        answer.read()
        assert answer.status == 201
    kept.close()
    assert cluster.alive
    eventually(lambda: _is_ready(cluster))
    assert cluster.get(f"{MAPS}/meanwhile")


def _is_ready(cluster: Cluster) -> bool:
    try:
        return cluster.request("GET", "/readyz").status == 200
    except OSError:
        return False


def test_the_server_is_there_for_others(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        with started(folder, LAB) as cluster:
            exhausted_descriptors(cluster)
            with cluster.undisturbed():
                watchers_that_do_not_read(cluster)
                webhooks_that_are_slow_or_do_not_end(cluster)

    retried(tmp_path, attempt)
