"""Pods that misuse their node: the API and other pods notice nothing, and every pod can be deleted.

`dray up --node` runs with a probe and a canary beside it. Each attack ends with the deletion of its pod; its processes
are gone then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.node.server.spdy import frames
from dray.node.server.spdy.headers import HeaderWriter
from dray.process.identity import started_at
from tests.attacks.cluster import LAB, Cluster, retried, started
from tests.cli.running import eventually

PODS = "/api/v1/namespaces/default/pods"
CHANNELS = "v4.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
# Who leaves does not wait for an answer to that.
HASTE = aiohttp.ClientWSTimeout(ws_close=0.2)
STREAMS = int(os.environ.get("DRAY_SPDY_STREAMS", "5000"))


class Attacker:
    """A user who may create pods and run commands in them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.root = folder / "data/node"
        self.node = next(name for name in self._nodes() if (self.root / "run").is_dir())

    def _nodes(self) -> list[str]:
        items = self.cluster.get("/api/v1/nodes?labelSelector=kubernetes.io/hostname")["items"]
        return [node["metadata"]["name"] for node in items if (node["status"].get("nodeInfo") or {}).get("bootID")]

    def run(self, name: str, *command: str, **members: Any) -> None:
        container = {"name": "c", "image": "busybox", "command": list(command), **members}
        spec = {"nodeName": self.node, "containers": [container], "terminationGracePeriodSeconds": 1}
        self.cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def phase(self, name: str) -> str:
        return str(self.cluster.get(f"{PODS}/{name}")["status"].get("phase"))

    def running(self, name: str) -> tuple[int, int]:
        """The ids of its shim and its first process, once it runs."""
        eventually(lambda: self.phase(name) == "Running")
        uid = self.cluster.get(f"{PODS}/{name}")["metadata"]["uid"]
        state = json.loads((self.root / f"run/containers/{uid}.c.0/state.json").read_text())
        return state["shim"], state["pid"]

    def begin_to_delete(self, name: str, *, force: bool = False) -> None:
        self.cluster.request("DELETE", f"{PODS}/{name}{'?gracePeriodSeconds=0' if force else ''}")

    def delete(self, name: str, *pids: int, force: bool = False) -> None:
        """Returns when the pod and the processes are gone."""
        self.begin_to_delete(name, force=force)
        eventually(lambda: self.cluster.request("GET", f"{PODS}/{name}").status == 404)
        eventually(lambda: not [pid for pid in pids if started_at(pid)])

    def agent(self) -> int:
        children = Path(f"/proc/{self.cluster.pid}/task/{self.cluster.pid}/children").read_text().split()
        return next(int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "dray node\n")

    def connect(self, path: str, protocol: str, work: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            async with (
                aiohttp.ClientSession(self.cluster.url) as session,
                session.ws_connect(path, protocols=[protocol], max_msg_size=0, timeout=HASTE) as socket,
            ):
                await work(socket)
                if (connection := socket._response.connection) is not None and connection.transport is not None:
                    # Although not all is sent that the node does not read.
                    connection.transport.abort()
            await asyncio.sleep(0.1)

        asyncio.run(run())


def withstood(folder: Path, attack: Callable[[Attacker], None]) -> None:
    def attempt(own: Path) -> None:
        with started(own, LAB, arguments=("--node",)) as cluster, cluster.undisturbed():
            attack(Attacker(cluster, own))

    retried(folder, attempt)


def cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def flood(socket: Any) -> None:
    """Gives four mebibytes of input, or as much as is taken within a second."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            for _ in range(64):
                await socket.send_bytes(b"\0" + bytes(65536))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_containers_that_do_not_end_are_deleted(tmp_path: Path) -> None:
    """Full input, a shim that is stopped, a shim that is killed while the container lives on."""

    def attack(attacker: Attacker) -> None:
        for name in ("full", "forced", "stopped", "orphan"):
            attacker.run(name, "sh", "-c", "trap '' TERM; setsid sleep 54321 & wait; sleep 54321", stdin=True)
        found = {name: attacker.running(name) for name in ("full", "forced", "stopped", "orphan")}
        for name in ("full", "forced"):
            attacker.connect(f"{PODS}/{name}/attach?stdin=true&container=c", CHANNELS, flood)
        before, began = cpu_seconds(found["full"][0]), time.monotonic()
        os.kill(found["stopped"][0], signal.SIGSTOP)
        os.kill(found["orphan"][0], signal.SIGKILL)
        attacker.delete("forced", *found["forced"], force=True)
        used, passed = cpu_seconds(found["full"][0]) - before, time.monotonic() - began
        assert used < 0.2 * passed + 0.2
        for name in ("full", "stopped", "orphan"):
            attacker.begin_to_delete(name)
        for name in ("full", "stopped", "orphan"):
            attacker.delete(name, *found[name])

    withstood(tmp_path, attack)


def test_streams_that_are_opened_and_reset_take_no_memory(tmp_path: Path) -> None:
    headers = HeaderWriter()

    async def reset_all(socket: Any) -> None:
        reading = asyncio.create_task(drained(socket))
        for number in range(1, 2 * STREAMS, 2):
            opened = headers.write({"requestid": f"request-{number}", "streamtype": "error", "port": "1"})
            head = number.to_bytes(4, "big")
            data = frames.control(frames.SYN_STREAM, head + bytes(6) + opened)
            await socket.send_bytes(data + frames.control(frames.RST_STREAM, head + frames.CANCEL.to_bytes(4, "big")))
        await socket.close()
        await reading

    def attack(attacker: Attacker) -> None:
        attacker.run("p", "sleep", "54321")
        pids = attacker.running("p")
        attacker.connect(f"{PODS}/p/portforward", TUNNEL, reset_all)
        attacker.delete("p", *pids)

    withstood(tmp_path, attack)


async def drained(socket: Any) -> None:
    async for _ in socket:
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_agent_without_descriptors_goes_on_and_recovers(tmp_path: Path) -> None:
    def attack(attacker: Attacker) -> None:
        attacker.run("before", "sleep", "54321")
        pids = attacker.running("before")
        agent = attacker.agent()
        limits = resource.prlimit(agent, resource.RLIMIT_NOFILE)
        already = len(attacker.cluster.log)
        resource.prlimit(agent, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{agent}/fd")) - 1, limits[1]))
        try:
            attacker.run("meanwhile", "sleep", "54321")
            eventually(lambda: "too many open files: fewer than " in attacker.cluster.log[already:])
            assert started_at(agent)
            assert all(map(started_at, pids))
        finally:
            resource.prlimit(agent, resource.RLIMIT_NOFILE, limits)
        eventually(lambda: attacker.phase("meanwhile") == "Running")
        eventually(lambda: "enough files can be opened again" in attacker.cluster.log[already:])
        assert attacker.agent() == agent
        attacker.delete("meanwhile")
        attacker.delete("before", *pids)

    withstood(tmp_path, attack)
