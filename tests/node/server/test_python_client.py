"""Kubernetes' client for Python looks into pods: logs, commands, ports. It runs in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.node.server.conftest import pod, shell

pytest.importorskip("kubernetes", reason="the kubernetes package is not installed")

START = """
import json, sys
import kubernetes
from kubernetes.stream import portforward, stream
kubernetes.config.load_kube_config(sys.argv[1])
core = kubernetes.client.CoreV1Api()
"""
COMMANDS = """
log = core.read_namespaced_pod_log("p", "default")
session = stream(
    core.connect_get_namespaced_pod_exec, "p", "default", command=["sh", "-c", "read line; echo got $line; exit 6"],
    stdin=True, stdout=True, stderr=True, _preload_content=False,
)
session.write_stdin("something\\n")
session.run_forever(timeout=20)
print(json.dumps([log, session.read_stdout(), session.returncode]))
"""
PORTS = """
port = int(sys.argv[2])
forward = portforward(core.connect_get_namespaced_pod_portforward, "p", "default", ports=str(port))
connection = forward.socket(port)
connection.settimeout(20)
connection.sendall(b"hello\\n")
answer = b""
while data := connection.recv(1000):
    answer += data
print(json.dumps([answer.decode(), forward.error(port)]))
"""


async def said(machine, script, *arguments):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", START + script, str(machine.home / "config"), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


async def test_logs_and_commands(machine):
    await machine.create(pod("p", shell("echo hello; sleep 1000")))
    await machine.until_log("p", "hello\n")
    assert await said(machine, COMMANDS) == ["hello\n", "got something\n", 6]


async def test_ports(machine):
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    # The network of a pod is that of the machine.
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        await machine.create(pod("p", shell("sleep 1000")))
        port = server.sockets[0].getsockname()[1]
        assert await said(machine, PORTS, str(port)) == ["HELLO\n", None]
