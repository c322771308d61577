"""A server that listens, an agent with its node server beside it, and clients that look into pods."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil

import aiohttp
import pytest

from dray.api.catalogue import built_in
from dray.client.api import ApiClient
from dray.node.agent import NodeAgent
from dray.node.agent_options import AgentOptions
from dray.node.runtimes.process import ProcessRuntime
from dray.node.server.serving import serving
from dray.node.server.trust import local_trust
from dray.server.inprocess import InProcessTransport
from dray.server.listening import listen
from dray.server.running import Options, RunningServer
from dray.server.security.certificates import client_context
from dray.testing.kubelet.double import QUICK

NODE = "here"
KUBECTL = shutil.which("kubectl")
PODS = built_in("v1", "Pod")


def pod(name, *scripts, **spec):
    containers = [
        {"image": "busybox", "name": f"c{number}", **(each if isinstance(each, dict) else shell(each))}
        for number, each in enumerate(scripts)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": containers,
            **spec,
        },
    }


def shell(script, **more):
    return {"command": ["sh", "-c", script], **more}


class Machine:
    def __init__(self, server, agent, home):
        self.server = server
        self.agent = agent
        self.home = home
        self.client = ApiClient(InProcessTransport(server.application))
        authority = server.context.security.authority
        self.tls = client_context(authority.certificate, authority.admin())
        self.http = aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(ssl=self.tls))

    async def create(self, made, phase="Running"):
        await self.client.create(PODS, made)
        return await self.phase(made["metadata"]["name"], phase)

    async def make(self, api_version, kind, name, content):
        metadata = {"name": name, "namespace": "default"}
        made = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
        return await self.client.create(built_in(api_version, kind), made)

    async def phase(self, name, *phases):
        return await self.until(name, lambda found: found["status"].get("phase") in phases)

    async def until(self, name, holds, within=20):
        async with asyncio.timeout(within):
            while not holds(found := await self.client.get(PODS, name, namespace="default")):
                await asyncio.sleep(0.02)
        return found

    async def kubectl(self, *arguments, text=None, within=30, **environment):
        """Exit code, output and errors."""
        if KUBECTL is None:
            pytest.skip("there is no kubectl on PATH")
        process = await self.start_kubectl(*arguments, **environment)
        try:
            async with asyncio.timeout(within):
                output, errors = await process.communicate(None if text is None else text.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode, output.decode(), errors.decode()

    async def start_kubectl(self, *arguments, streams=asyncio.subprocess.PIPE, **environment):
        if KUBECTL is None:
            pytest.skip("there is no kubectl on PATH")
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=streams,
            stdout=streams,
            stderr=streams,
            env={
                "HOME": str(self.home),
                "KUBECONFIG": str(self.home / "config"),
                "PATH": os.environ["PATH"],
                **environment,
            },
        )

    async def get(self, path, **query):
        async with self.http.get(path, params=query) as answer:
            return answer.status, await answer.text()

    async def until_log(self, name, text):
        async with asyncio.timeout(20):
            while await self.log(name) != (200, text):
                await asyncio.sleep(0.02)

    async def log(self, name, **query):
        return await self.get(f"/api/v1/namespaces/default/pods/{name}/log", **query)


@contextlib.asynccontextmanager
async def running_machine(root):
    home = root / "home"
    home.mkdir()
    options = Options(port=0, kubeconfig=home / "config")
    async with RunningServer(options).running() as server:
        listening = listen("127.0.0.1", 0)
        client = ApiClient(InProcessTransport(server.application))
        runtime = ProcessRuntime(root / "run", cdi_directories=[])
        port = listening.getsockname()[1]
        agent = NodeAgent(client, AgentOptions(node=NODE, root=root / "node", runtime=runtime, port=port, timing=QUICK))
        trust = local_trust(server.context.security, NODE, ["127.0.0.1"])
        task = asyncio.create_task(agent.run())
        async with serving(agent, listening, trust.context()):
            async with asyncio.timeout(20):
                await agent.ready.wait()
            machine = Machine(server, agent, home)
            yield machine
            await machine.http.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        for uid in {each.pod_uid for each in await runtime.containers()}:
            await runtime.remove_sandbox(uid)


@pytest.fixture
async def machine(tmp_path):
    async with running_machine(tmp_path) as made:
        yield made
