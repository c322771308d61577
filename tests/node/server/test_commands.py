"""Commands in containers, and their own streams, over WebSocket: with kubectl and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
from urllib.parse import urlencode

import pytest

from dray.api.catalogue import built_in
from dray.server.streams import Tunnels
from tests.node.server.conftest import KUBECTL, pod, running_machine, shell

EXEC = "/api/v1/namespaces/default/pods/p/exec"
IDLE = "while :; do sleep 1000; done"


@contextlib.asynccontextmanager
async def channels(machine, path, protocol="v5.channel.k8s.io", **query):
    pairs = [(name, each) for name, value in query.items() for each in (value if isinstance(value, list) else [value])]
    async with machine.http.ws_connect(f"{path}?{urlencode(pairs)}", protocols=[protocol]) as socket:
        assert socket.protocol == protocol
        yield socket


async def collect(socket):
    """What came on each channel."""
    found = {1: b"", 2: b"", 3: b""}
    async for message in socket:
        found[message.data[0]] += message.data[1:]
    return found[1].decode(), found[2].decode(), json.loads(found[3] or "null")


async def test_output_errors_and_exit_code(machine):
    await machine.create(pod("p", IDLE))
    query = {"command": ["sh", "-c", "echo out; echo err >&2; exit 7"], "stdout": "true", "stderr": "true"}
    for protocol in ("v5.channel.k8s.io", "v4.channel.k8s.io"):
        async with channels(machine, EXEC, protocol, **query) as socket:
            output, errors, status = await collect(socket)
        assert (output, errors) == ("out\n", "err\n")
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_input_and_its_end(machine):
    await machine.create(pod("p", IDLE))
    async with channels(machine, EXEC, command="cat", stdin="true", stdout="true") as socket:
        for number in range(50):
            await socket.send_bytes(b"\0" + b"%d," % number * 1000)
        await socket.send_bytes(b"\xff\0")
        output, _, status = await collect(socket)
    assert output == "".join(f"{number}," * 1000 for number in range(50))
    assert status == {"metadata": {}, "status": "Success"}


async def test_a_terminal_and_its_size(machine):
    await machine.create(pod("p", IDLE))
    query = {"stdin": "true", "stdout": "true", "tty": "true"}
    async with channels(machine, EXEC, command="sh", **query) as socket:
        await socket.send_bytes(b'\4{"Width":123,"Height":45}')
        await socket.send_bytes(b"\0until [ \"$(stty size)\" = '45 123' ]; do sleep 0.05; done; tty; exit 3\n")
        output, _, status = await collect(socket)
    assert "/dev/pts/" in output
    assert status["details"]["causes"][0]["message"] == "3"


async def test_a_client_that_leaves_ends_the_command(machine, tmp_path):
    await machine.create(pod("p", IDLE))
    async with channels(
        machine, EXEC, command=["sh", "-c", f"echo $$; exec sleep 1000 > {tmp_path}/x"], stdout="1"
    ) as socket:
        message = await socket.receive(timeout=10)
        pid = int(message.data[1:])
    async with asyncio.timeout(10):
        while os.path.exists(f"/proc/{pid}"):
            await asyncio.sleep(0.02)
        while len(machine.server.application._tunnels):
            await asyncio.sleep(0.02)


async def test_a_client_that_leaves_while_its_input_is_not_taken_ends_the_command(machine, monkeypatch):
    monkeypatch.setattr("dray.node.server.channels._PING_SECONDS", 0.2)
    await machine.create(pod("p", IDLE))
    query = {"command": ["sh", "-c", "echo $$; exec sleep 1000"], "stdin": "1", "stdout": "1"}
    async with channels(machine, EXEC, **query) as socket:
        pid = int((await socket.receive(timeout=10)).data[1:])
        with contextlib.suppress(TimeoutError):
            while True:
                # Until all buffers on the way are full.
                async with asyncio.timeout(1):
                    await socket.send_bytes(b"\0" * 1_000_000)
        socket._conn.transport.abort()
        async with asyncio.timeout(30):
            while os.path.exists(f"/proc/{pid}") or len(machine.server.application._tunnels):
                await asyncio.sleep(0.02)


async def test_a_client_that_does_not_read_slows_the_command(machine, tmp_path):
    await machine.create(pod("p", IDLE))
    progress = tmp_path / "progress"
    script = f"for i in $(seq 100); do head -c 1000000 /dev/zero; echo $i > {progress}; done"
    async with channels(machine, EXEC, command=["sh", "-c", script], stdout="1") as socket:
        size = len((await socket.receive(timeout=10)).data) - 1
        socket._conn.transport.pause_reading()
        before, now = "", " "
        async with asyncio.timeout(20):
            while before != now:
                before = now
                await asyncio.sleep(0.3)
                now = progress.read_text() if progress.exists() else ""
        assert int(now or 0) < 50
        socket._conn.transport.resume_reading()
        async for message in socket:
            size += len(message.data) - 1 if message.data[0] == 1 else 0
    assert size == 100_000_000


async def test_refusals(machine):
    await machine.create(pod("p", IDLE, "true"))
    await machine.until("p", lambda found: "terminated" in found["status"]["containerStatuses"][1]["state"])
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    cases = [
        ("container=c0&command=ls&stdout=1", {}, 400, "Upgrade request required"),
        ("container=c0&stdout=1", upgrade, 400, "at least one command"),
        ("container=c0&command=ls", upgrade, 400, "at least 1 of stdin, stdout, stderr"),
        ("container=c9&command=ls&stdout=1", upgrade, 400, "container c9 is not valid for pod p"),
        ("container=c1&command=ls&stdout=1", upgrade, 404, 'container not found ("c1")'),
        ("container=c0&command=ls&stdout=1", {**upgrade, "Sec-WebSocket-Protocol": "v1.x"}, 400, "offers v1.x"),
        ("container=c0&command=ls&stdout=1", {**upgrade, "Impersonate-User": "somebody"}, 403, "cannot get"),
    ]
    for query, headers, code, text in cases:
        async with machine.http.get(f"{EXEC}?{query}", headers=headers) as answer:
            assert (answer.status, text in (await answer.json())["message"]) == (code, True), query


async def test_a_node_that_does_not_answer(machine):
    await machine.create(pod("p", IDLE))
    node = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}
    await machine.client.patch(built_in("v1", "Node"), "here", node, subresource="status")
    for protocol in ("websocket", "SPDY/3.1"):
        headers = {"Connection": "Upgrade", "Upgrade": protocol, "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
        async with machine.http.post(f"{EXEC}?command=ls&stdout=1", headers=headers) as answer:
            assert answer.status == 500
            assert "error dialing backend" in (await answer.json())["message"]


async def test_a_connection_on_which_nothing_moves_is_closed(machine):
    machine.server.application._tunnels = Tunnels(idle_seconds=0.3)
    await machine.create(pod("p", IDLE))
    async with channels(machine, EXEC, command="cat", stdin="1", stdout="1") as socket:
        await socket.receive(timeout=10)
        assert socket.closed


async def test_streams_end_with_the_server(tmp_path):
    async with running_machine(tmp_path) as machine:
        await machine.create(pod("p", IDLE))
        socket = await machine.http.ws_connect(f"{EXEC}?command=cat&stdin=1", protocols=["v5.channel.k8s.io"])
        began = asyncio.get_running_loop().time()
        machine.server.application.end_streams()
        await socket.receive(timeout=10)
        assert socket.closed
        assert asyncio.get_running_loop().time() - began < 4
        await socket.close()


async def test_the_right_to_read_is_none_to_execute(machine):
    await machine.create(pod("p", IDLE))
    role = {"rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]}
    await machine.make("rbac.authorization.k8s.io/v1", "Role", "reader", role)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding = {"subjects": [subject], "roleRef": reference}
    await machine.make("rbac.authorization.k8s.io/v1", "RoleBinding", "reader", binding)
    async with machine.http.get(f"{EXEC}?command=ls&stdout=1", headers={"Impersonate-User": "somebody"}) as answer:
        assert answer.status == 403
        assert 'cannot create resource "pods/exec"' in (await answer.json())["message"]


async def test_attach(machine, tmp_path):
    await machine.create(
        pod("p", shell("while read line; do echo got $line; done; echo bye", stdin=True, stdinOnce=True))
    )
    path = "/api/v1/namespaces/default/pods/p/attach"
    async with channels(machine, path, stdin="true", stdout="true", stderr="true") as socket:
        await socket.send_bytes(b"\0one\ntwo\n")
        await socket.send_bytes(b"\xff\0")
        output, _, status = await collect(socket)
    assert output == "got one\ngot two\nbye\n"
    assert status["status"] == "Success"


# The second is what older clients speak: SPDY.
WAYS = pytest.mark.parametrize("way", [{}, {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}], ids=["websocket", "spdy"])


@WAYS
async def test_kubectl_exec(machine, way):
    await machine.create(pod("p", IDLE, IDLE))
    # A pod is Running as soon as one of its containers is.
    await machine.until("p", lambda found: all(each["ready"] for each in found["status"]["containerStatuses"]))
    assert await machine.kubectl("exec", "p", "-c", "c1", "--", "echo", "hello", **way) == (0, "hello\n", "")
    code, _, errors = await machine.kubectl("exec", "p", "-c", "c0", "--", "sh", "-c", "exit 5", **way)
    assert (code, errors) == (5, "command terminated with exit code 5\n")
    code, output, _ = await machine.kubectl("exec", "-i", "p", "-c", "c0", "--", "cat", text="a\nb\n" * 50_000, **way)
    assert (code, output) == (0, "a\nb\n" * 50_000)
    code, _, errors = await machine.kubectl("exec", "p", "-c", "none", "--", "ls", **way)
    assert code == 1
    assert "container none is not valid for pod p" in errors


@WAYS
async def test_kubectl_exec_with_a_terminal(machine, way):
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    await machine.create(pod("p", IDLE))
    ours, theirs = pty.openpty()
    process = await machine.start_kubectl("exec", "-it", "p", "--", "sh", streams=theirs, **way)
    os.close(theirs)
    os.write(ours, b"tty && exit 4\n")
    async with asyncio.timeout(20):
        assert await process.wait() == 4
    shown = b""
    # Linux says so when the last process has left the terminal.
    with contextlib.suppress(OSError):
        while data := os.read(ours, 65536):
            shown += data
    os.close(ours)
    assert b"/dev/pts/" in shown


async def test_kubectl_cp(machine, tmp_path):
    await machine.create(pod("p", IDLE))
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "small").write_text("hello")
    (tmp_path / "from" / "big").write_bytes(os.urandom(3_000_000))
    code, _, errors = await machine.kubectl("cp", str(tmp_path / "from"), f"p:{tmp_path}/there")
    assert (code, errors) == (0, "")
    code, _, errors = await machine.kubectl("cp", f"p:{tmp_path}/there", str(tmp_path / "back"))
    assert code == 0, errors
    for name in ("small", "big"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "from" / name).read_bytes()


async def test_kubectl_attach(machine):
    await machine.create(pod("p", shell("while read line; do echo got $line; done", stdin=True, stdinOnce=True)))
    code, output, _ = await machine.kubectl("attach", "-i", "p", text="one\n")
    assert (code, output) == (0, "got one\n")
