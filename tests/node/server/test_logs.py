"""Logs of containers, through the API server, with kubectl and without."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from dray.api.catalogue import built_in
from dray.node.runtimes import log_rotation
from dray.server import connections
from tests.node.server.conftest import pod, shell

NODES = built_in("v1", "Node")
LINES = "for i in 1 2 3 4 5; do echo line $i; done; echo wrong >&2"


async def test_all_of_it_and_parts_of_it(machine):
    await machine.create(pod("p", LINES), "Succeeded")
    whole = "line 1\nline 2\nline 3\nline 4\nline 5\n"
    code, text = await machine.log("p", container="c0")
    assert (code, sorted(text.splitlines())) == (200, [*whole.splitlines(), "wrong"])
    assert await machine.log("p", stream="Stdout") == (200, whole)
    assert await machine.log("p", stream="Stderr") == (200, "wrong\n")
    assert (await machine.log("p", tailLines="2"))[1].count("\n") == 2
    assert await machine.log("p", tailLines="0") == (200, "")
    assert await machine.log("p", limitBytes="3", stream="Stdout") == (200, "lin")
    stamped = (await machine.log("p", timestamps="true", stream="Stderr"))[1]
    time, text = stamped.split(" ", 1)
    assert abs(datetime.fromisoformat(time) - datetime.now(UTC)) < timedelta(minutes=5)
    assert text == "wrong\n"
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert await machine.log("p", sinceTime=later) == (200, "")
    assert (await machine.log("p", sinceSeconds="3600"))[1].count("\n") == 6


async def test_refusals(machine):
    made = pod("p", "sleep 1000", shell("true", env=[{"name": "A", "valueFrom": {"secretKeyRef": SECRET}}]))
    await machine.client.create(built_in("v1", "Pod"), made)
    await machine.until("p", lambda found: "CreateContainerConfigError" in str(found["status"]))
    code, text = await machine.log("p")
    assert code == 400
    assert "a container name must be specified for pod p, choose one of: [c0 c1]" in text
    code, text = await machine.log("p", container="c1")
    assert code == 400
    assert r"container \"c1\" in pod \"p\" is waiting to start" in text
    code, text = await machine.log("p", container="c0", previous="true")
    assert code == 400
    assert r"previous terminated container \"c0\" in pod \"p\" not found" in text
    assert (await machine.log("p", container="c9"))[0] == 400
    for query in ({"tailLines": "-1"}, {"limitBytes": "0"}, {"sinceSeconds": "5", "sinceTime": "2026-01-01T00:00:00Z"}):
        assert (await machine.log("p", container="c0", **query))[0] == 422, query
    for query in ({"tailLines": "x"}, {"sinceTime": "yesterday"}):
        assert (await machine.log("p", container="c0", **query))[0] == 400, query


SECRET = {"name": "none", "key": "a"}


async def test_a_node_that_does_not_answer(machine):
    await machine.create(pod("p", "true"), "Succeeded")
    node = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}
    await machine.client.patch(NODES, "here", node, subresource="status")
    code, text = await machine.log("p")
    assert code == 500
    assert "127.0.0.1:1/containerLogs/default/p/c0" in text


async def test_only_the_servers_certificate_is_let_in(machine):
    node = await machine.client.get(NODES, "here")
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    url = f"https://127.0.0.1:{port}/pods"
    # Clients of the cluster do not trust the certificate of a node.
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await machine.http.get(url)
    serving = machine.server.context.security.serving_authority.certificate
    machine.tls.load_verify_locations(cadata=serving.decode())
    async with machine.http.get(url) as answer:
        assert answer.status == 403


async def test_followed_over_rotations_until_it_ends(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(log_rotation, "SIZE", 2000)
    script = f"for i in $(seq 300); do echo line $i; done; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo end"
    found = await machine.create(pod("p", script))
    directory = machine.agent.setup.log_path(found, "c0", 0).parent
    async with asyncio.timeout(20):
        while not (directory / "0.log.4").exists():
            await asyncio.sleep(0.02)
    text = b""
    async with machine.http.get("/api/v1/namespaces/default/pods/p/log?follow=true&tailLines=20") as answer:
        async for chunk in answer.content.iter_any():
            text += chunk
            if b"line 300\n" in text:
                (tmp_path / "go").touch()
    assert text.decode().splitlines() == [f"line {number}" for number in range(281, 301)] + ["end"]


async def test_nothing_is_lost_while_files_rotate_quickly(machine, monkeypatch):
    monkeypatch.setattr(log_rotation, "SIZE", 3000)
    await machine.create(pod("p", "for i in $(seq 400); do echo line $i; [ $((i % 10)) = 0 ] && sleep 0.02; done"))
    _, text = await machine.log("p", follow="true")
    numbers = [int(line.split()[1]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 401))


async def test_a_client_that_leaves_ends_the_reading(machine):
    await machine.create(pod("p", "echo hello; sleep 1000"))
    async with machine.http.get("/api/v1/namespaces/default/pods/p/log?follow=true") as answer:
        assert await answer.content.readline() == b"hello\n"
    streams = machine.server.application._node_streams
    async with asyncio.timeout(10):
        while len(streams):
            await asyncio.sleep(0.02)


async def test_a_client_may_take_its_time(machine, monkeypatch):
    """Whoever looks at a page of a log is not cut off, as one who does not read a list is."""
    looks = 0
    look = connections.Connections.look

    def counted(self, now):
        nonlocal looks
        looks += 1
        look(self, now)

    monkeypatch.setattr(connections.Connections, "look", counted)
    monkeypatch.setattr(connections, "_INTERVAL", 0.05)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.1)
    await machine.create(pod("p", "yes $(seq -s, 2000) | head -c 8000000"), "Succeeded")
    async with machine.http.get("/api/v1/namespaces/default/pods/p/log") as answer:
        answer.connection.transport.pause_reading()
        seen = looks
        async with asyncio.timeout(20):
            while looks < seen + 20:
                await asyncio.sleep(0.02)
        answer.connection.transport.resume_reading()
        size = 0
        async for chunk in answer.content.iter_any():
            size += len(chunk)
    assert size == 8_000_000


async def test_kubectl_logs(machine, tmp_path):
    fails_once = f"echo two; [ -e {tmp_path}/failed ] || {{ touch {tmp_path}/failed; exit 3; }}"
    await machine.create(pod("p-1", "echo one", fails_once, restartPolicy="OnFailure"), "Succeeded")
    await machine.create(pod("p-2", "echo three"), "Succeeded")
    assert (await machine.kubectl("logs", "p-2"))[:2] == (0, "three\n")
    assert (await machine.kubectl("logs", "p-1", "-c", "c1", "--previous"))[:2] == (0, "two\n")
    code, output, _ = await machine.kubectl("logs", "p-1", "--all-containers")
    assert (code, sorted(output.splitlines())) == (0, ["one", "two"])
    code, output, _ = await machine.kubectl("logs", "-l", "app=p", "--all-containers", "--prefix", "--tail=1")
    assert sorted(output.splitlines()) == ["[pod/p-1/c0] one", "[pod/p-1/c1] two", "[pod/p-2/c0] three"]
    assert (await machine.kubectl("logs", "p-2", "--since=1h", "--timestamps"))[1].endswith("Z three\n")
    code, _, errors = await machine.kubectl("logs", "p-2", "--previous")
    assert code == 1
    assert errors == 'Error from server (BadRequest): previous terminated container "c0" in pod "p-2" not found\n'


async def test_kubectl_follows(machine, tmp_path):
    await machine.create(pod("p", f"echo one; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo two"))
    process = await machine.start_kubectl("logs", "-f", "p")
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"one\n"
        (tmp_path / "go").touch()
        output, errors = await process.communicate()
    assert (process.returncode, output, errors) == (0, b"two\n", b"")


@pytest.mark.parametrize("part", ["log"])
async def test_rights_are_asked_for(machine, part):
    await machine.create(pod("p", "true"), "Succeeded")
    async with machine.http.get(
        f"/api/v1/namespaces/default/pods/p/{part}", headers={"Impersonate-User": "somebody"}
    ) as answer:
        assert answer.status == 403
