"""Pods that no node can set up: they say why, and they can be deleted.

The agent gets them from a server that checks less than ours: what the API shows as `<NUL>` reaches the agent as a zero
byte.
"""

import asyncio
import os

import pytest

from dray.client.api import ApiClient
from dray.node.runtimes.process import ProcessRuntime
from dray.process import beneath
from dray.server.inprocess import InProcessTransport
from dray.server.security.users import node_user
from dray.testing.cluster import LocalCluster
from tests.node.machines import NODE, Machine, pod, shell

NUL = "<NUL>"
SLEEP = ["sleep", "1000"]


def volume(**source):
    return {"name": "v", **source}


def mount(**more):
    return {"command": SLEEP, "volumeMounts": [{"name": "v", "mountPath": "/v", **more}]}


def downward(path):
    return volume(downwardAPI={"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]})


def hook(*command):
    return {"exec": {"command": [*command]}}


BROKEN = {
    "downward-api": pod("x", mount(), volumes=[downward(f"a{NUL}")]),
    "host-path": pod("x", mount(), volumes=[volume(hostPath={"path": f"/tmp/a{NUL}"})]),
    "sub-path": pod("x", mount(subPath=f"a{NUL}"), volumes=[volume(emptyDir={})]),
    "mount-path": pod("x", mount(mountPath=f"/v{NUL}"), volumes=[volume(emptyDir={})]),
    "command": pod("x", {"command": ["sleep", f"1000{NUL}"]}),
    "arguments": pod("x", {"command": ["sleep"], "args": [f"1000{NUL}"]}),
    "variable": pod("x", {"command": SLEEP, "env": [{"name": "A", "value": f"b{NUL}"}]}),
    "working-directory": pod("x", {"command": SLEEP, "workingDir": f"/tmp/a{NUL}"}),
    "message-path": pod("x", {"command": SLEEP, "terminationMessagePath": f"/dev/a{NUL}"}),
    "probe": pod("x", {"command": SLEEP, "livenessProbe": hook(f"a{NUL}")}),
    "hook": pod("x", {"command": SLEEP, "lifecycle": {"preStop": hook(f"a{NUL}")}}),
    "post-start": pod("x", {"command": SLEEP, "lifecycle": {"postStart": hook(f"a{NUL}")}}),
}


PLACES = {
    "downward-api": "volume v: downwardAPI.items[0].path",
    "host-path": "volume v: hostPath.path",
    "sub-path": "container c0: volumeMounts[0].subPath",
    "mount-path": "container c0: volumeMounts[0].mountPath",
    "command": "container c0: command[1]",
    "arguments": "container c0: args[0]",
    "variable": "container c0: env[0].value",
    "working-directory": "container c0: workingDir",
    "message-path": "container c0: terminationMessagePath",
}


class Garbled:
    """A connection to the server that replaces the mark by a zero byte, which no path may contain."""

    def __init__(self, transport):
        self._transport = transport
        self.watch_seconds = transport.watch_seconds

    async def send(self, request):
        answer = await self._transport.send(request)
        return type(answer)(answer.status, answer.headers, garbled(answer.body))

    async def stream(self, request):
        return GarbledStream(await self._transport.stream(request))

    async def close(self):
        await self._transport.close()


class GarbledStream:
    def __init__(self, stream):
        self._stream = stream
        self.status, self.headers = stream.status, stream.headers

    async def __aiter__(self):
        async for piece in self._stream:
            yield garbled(piece)

    async def close(self):
        await self._stream.close()


def garbled(data):
    return data.replace(NUL.encode(), b"\\u0000")


def named(name, given):
    return {**given, "metadata": {**given["metadata"], "name": name}}


@pytest.fixture
async def machine(tmp_path):
    async with LocalCluster(controllers=["serviceaccount"]) as cluster:
        machine = Machine(cluster, tmp_path)
        await machine.start(ApiClient(Garbled(InProcessTransport(cluster.application, node_user(NODE)))))
        yield machine
        await machine.stop()
        await machine.clean()


async def events(machine, name):
    found = await machine.cluster.list("Event", namespace="default")
    return [event["message"] for event in found if (event.get("involvedObject") or {}).get("name") == name]


async def test_pods_that_cannot_be_set_up_say_why_and_are_deleted(machine):
    for name, given in BROKEN.items():
        await machine.cluster.create(named(name, given))
    await machine.cluster.create(pod("good", shell("sleep 1000")))
    await machine.phase("good", "Running")
    for name, place in PLACES.items():
        await machine.cluster.eventually(
            lambda name=name, place=place: said(machine, name, f"{place}: must not contain")
        )
    # Half of them by force: the pod is gone from the API at once, and from the machine soon.
    for number, name in enumerate(BROKEN):
        await machine.cluster.delete("Pod", name, grace=0 if number % 2 else None)
    for name in BROKEN:
        await machine.until(name, None)
    async with asyncio.timeout(30):
        while [worker for worker in machine.agent.workers() if worker.pod["metadata"]["name"] != "good"]:
            await asyncio.sleep(0.05)
        found = await machine.cluster.get("Pod", "good")
        while machine.agent.setup.uids() != {found["metadata"]["uid"]}:
            await asyncio.sleep(0.05)
    assert {container.pod_uid for container in await machine.agent.runtime.containers()} == {found["metadata"]["uid"]}
    assert not machine._task.done()


async def said(machine, name, text):
    return [message for message in await events(machine, name) if text in message]


DEEP = "/d" * 3000
LONG = {
    "mount-path": (pod("x", mount(mountPath=DEEP), volumes=[volume(emptyDir={})]), "mount path /d/d"),
    "message-path": (pod("x", {"command": SLEEP, "terminationMessagePath": DEEP}), ""),
    "working-directory": (pod("x", {"command": SLEEP, "workingDir": DEEP}), "working directory /d/d"),
    "sub-path": (pod("x", mount(subPath=DEEP[1:]), volumes=[volume(emptyDir={})]), "subPath d/d"),
    "host-path": (pod("x", mount(), volumes=[volume(hostPath={"path": DEEP})]), "volume v: "),
    "item": (pod("x", mount(), volumes=[downward(DEEP[1:])]), "volume v: path d/d"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_paths_that_linux_does_not_take_are_named_with_the_reason(machine):
    for name, (given, _) in LONG.items():
        await machine.cluster.create(named(name, given))
    for name, (_, place) in LONG.items():
        if place:
            await machine.cluster.eventually(lambda name=name, place=place: said(machine, name, place))
            (message, *_) = await said(machine, name, place)
            assert "File name too long" in message, message
            assert len(message) < 400
            assert "Errno" not in message
    # A file for messages may be missing: the container does without.
    await machine.phase("message-path", "Running")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_paths_with_more_directories_than_python_recurses_are_made(machine, tmp_path):
    deep = "/d" * 1500
    mounts = [{"name": "v", "mountPath": deep}, {"name": "h", "mountPath": "/h"}]
    volumes = [volume(emptyDir={}), {"name": "h", "hostPath": {"path": f"{tmp_path}/h{deep}"}}]
    await machine.cluster.create(pod("p", {"command": SLEEP, "volumeMounts": mounts}, volumes=volumes))
    try:
        await machine.phase("p", "Running")
    finally:
        beneath.remove_tree(tmp_path / "h")


async def test_a_worker_that_fails_for_any_reason_ends_its_deleted_pod(machine, monkeypatch):
    await machine.cluster.create(pod("p", shell("sleep 1000")))
    found = await machine.phase("p", "Running")

    def broken(*_):
        raise RuntimeError("never thought of")

    worker = machine.agent.worker("default", "p")
    monkeypatch.setattr(worker._runs, "stop", broken)
    (container,) = await machine.agent.runtime.containers()
    assert container.running
    await machine.cluster.delete("Pod", "p", grace=None)
    await machine.until("p", None)
    assert await machine.agent.runtime.containers() == []
    assert found["metadata"]["uid"] not in machine.agent.setup.uids()


async def test_a_pod_that_cannot_be_removed_does_not_keep_others_that_vanished(machine, monkeypatch):
    for name in ("stuck", "plain"):
        await machine.cluster.create(pod(name, shell("sleep 1000")))
        await machine.phase(name, "Running")
    stuck = machine.agent.worker("default", "stuck").pod["metadata"]["uid"]
    await machine.stop()
    for name in ("stuck", "plain"):
        await machine.cluster.delete("Pod", name, grace=0)
    allowed, remove = asyncio.Event(), ProcessRuntime.remove_sandbox

    async def fails(runtime, uid):
        if uid == stuck and not allowed.is_set():
            raise OSError("not yet")
        await remove(runtime, uid)

    monkeypatch.setattr(ProcessRuntime, "remove_sandbox", fails)
    await machine.start()
    async with asyncio.timeout(30):
        while {container.pod_uid for container in await machine.agent.runtime.containers()} - {stuck}:
            await asyncio.sleep(0.05)
        allowed.set()
        while await machine.agent.runtime.containers():
            await asyncio.sleep(0.05)
    assert not machine._task.done()
