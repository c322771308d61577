"""Hooks of claims for the network of a pod: once, in a network of its own, in the process runtime."""

import asyncio
import json
import os
import uuid

import pytest

from dray.node import network_namespaces
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.process import ProcessRuntime
from tests.node.runtimes.streams import Recorder

DEVICE = "example.com/net=one"


@pytest.fixture
async def pod(tmp_path):
    """Makes the pod's sandbox with a hook that runs a script of the shell."""
    if os.geteuid() != 0:
        pytest.skip("only root makes networks")
    runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[tmp_path / "cdi"])
    uid = str(uuid.uuid4())
    (tmp_path / "cdi").mkdir()

    class Pod:
        def __init__(self):
            self.runtime, self.uid, self.attempts = runtime, uid, 0

        async def make(self, script, annotated=True, **members):
            hook = {"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", script]}
            device = {
                "name": "one",
                "annotations": {"dray.dev/sandbox-hooks": "true"} if annotated else {},
                "containerEdits": {"hooks": [hook]},
            }
            spec = {"cdiVersion": "0.6.0", "kind": "example.com/net", "devices": [device]}
            (tmp_path / "cdi/net.json").write_text(json.dumps(spec))
            config = SandboxConfig(pod_uid=uid, namespace="default", name="p", cdi_devices=(DEVICE,), **members)
            return await runtime.create_sandbox(config)

        async def start(self, *command):
            self.attempts += 1
            config = ContainerConfig(
                pod_uid=uid,
                namespace="default",
                pod_name="p",
                name="main",
                attempt=self.attempts,
                image="busybox",
                command=command,
                args=(),
                log_path=tmp_path / f"{self.attempts}.log",
                cdi_devices=(DEVICE,),
            )
            return await runtime.start(config)

    yield Pod()
    await runtime.remove_sandbox(uid)


async def test_a_hook_gets_the_network_once_and_containers_are_in_it(pod, tmp_path):
    seen = tmp_path / "seen"
    sandbox = await pod.make(f"cat >> {seen}; echo >> {seen}")
    (told,) = [json.loads(line) for line in seen.read_text().splitlines()]
    with open(f"{told['bundle']}/config.json") as file:
        (namespace,) = json.load(file)["linux"]["namespaces"]
    assert namespace == {"type": "network", "path": sandbox.network_namespace}
    number = network_namespaces.number(sandbox.network_namespace)
    assert number != network_namespaces.number()
    container = await pod.start("sh", "-c", "readlink /proc/self/ns/net; exec sleep 99")
    streams = Recorder()
    assert await pod.runtime.exec(container.id, ["readlink", "/proc/self/ns/net"], streams) == 0
    assert streams.outputs[1] == f"net:[{number}]\n".encode()
    # An agent that finds the pod, and one whose CDI files are gone.
    assert await pod.make("exit 7") == sandbox
    assert len(seen.read_text().splitlines()) == 1
    await pod.runtime.stop(container.id, 0)
    await pod.runtime.stop_sandbox(pod.uid)
    assert not network_namespaces.holds(tmp_path / f"run/pods/{pod.uid}/netns")


async def test_ports_of_the_pod_are_reached_in_its_network(pod):
    await pod.make("true")
    program = (
        "import socket; s = socket.create_server(('127.0.0.1', 8123)); c = s.accept()[0]; c.send(b'hello'); c.close()"
    )
    container = await pod.start("python3", "-c", program)
    for _ in range(200):
        try:
            reader, writer = await pod.runtime.connect(pod.uid, 8123)
            break
        except OSError:
            await asyncio.sleep(0.05)
    assert await reader.read() == b"hello"
    writer.close()
    await writer.wait_closed()
    await pod.runtime.wait(container.id)


async def test_a_hook_that_fails_is_run_again(pod, tmp_path):
    with pytest.raises(StartError, match="exit status 3: no such interface") as error:
        await pod.make("echo no such interface >&2; exit 3")
    assert error.value.reason == "FailedCreatePodSandBox"
    assert (await pod.make("true")).network_namespace


async def test_a_pod_with_the_network_of_the_host_is_refused(pod):
    with pytest.raises(StartError, match="a pod with hostNetwork cannot have interfaces of its own"):
        await pod.make("true", host_network=True)


async def test_a_pod_that_runs_needs_no_cdi_files_any_more(pod, tmp_path):
    assert not (await pod.make("true", annotated=False)).network_namespace
    (tmp_path / "cdi/net.json").unlink()
    config = SandboxConfig(pod_uid=pod.uid, namespace="default", name="p", cdi_devices=(DEVICE,))
    assert not (await pod.runtime.create_sandbox(config)).network_namespace
