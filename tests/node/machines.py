"""A cluster and a node agent on this machine, for tests of pods that really run."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from dray.node.agent import NodeAgent
from dray.node.agent_options import AgentOptions
from dray.node.cgroups import Cgroups
from dray.node.eviction.pressure import EvictionOptions
from dray.node.runtimes.process import ProcessRuntime
from dray.server.security.users import node_user
from dray.testing.kubelet.double import QUICK

NODE = "here"


def pod(name, *containers, **spec):
    made = [{"image": "busybox", "name": f"c{number}", **each} for number, each in enumerate(containers)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": NODE, "containers": made, "terminationGracePeriodSeconds": 5, **spec},
    }


def shell(script, **more):
    return {"command": ["sh", "-c", script], **more}


CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "config", "namespace": "default"},
    "data": {"key": "value", "other": "x"},
}
VOLUMES = [{"name": "config", "configMap": {"name": "config"}}, {"name": "scratch", "emptyDir": {}}]
SUB_PATHS_SAY = ["value", "not written", "file", "777", "written"]


def using_sub_paths():
    """A container that mounts a file of a ConfigMap, a new directory, and one that the environment names."""
    mounts = [
        {"name": "config", "mountPath": "/tmp/sub/key", "subPath": "key"},
        {"name": "scratch", "mountPath": "/tmp/sub/new", "subPath": "a/b"},
        {"name": "scratch", "mountPath": "/tmp/sub/named", "subPathExpr": "$(NAME)"},
        {"name": "scratch", "mountPath": "/tmp/sub/all"},
    ]
    script = (
        "cd /tmp/sub; echo $(cat key); (echo x > key) 2> /dev/null || echo not written; touch new/file; ls all/a/b;"
        " stat -c %a new; echo written > named/file; cat all/$NAME/file"
    )
    return shell(script, volumeMounts=mounts, env=[{"name": "NAME", "value": "c"}])


class Machine:
    """A cluster and an agent on this machine, which can be stopped and started again.

    `runtime` makes a runtime from a directory and that of the CDI specs; without it containers are processes.
    """

    def __init__(self, cluster, root, *, runtime=None, **options):
        self.cluster = cluster
        self.root = root
        self._make_runtime = runtime or (
            lambda root, cdi: ProcessRuntime(root, cdi_directories=[cdi], cgroups=Cgroups(Path("/none")))
        )
        # However little this machine has left, unless the test is about that.
        self.options = {"timing": QUICK, "eviction": EvictionOptions(hard=()), **options}
        self.agent = None
        self._task = None

    async def start(self, client=None, time=None):
        runtime = self._make_runtime(self.root / "run", self.root / "cdi")
        client = client or self.cluster.client_of(node_user(NODE))
        options = AgentOptions(node=NODE, root=self.root, runtime=runtime, **self.options)
        self.agent = NodeAgent(client, options, time=time)
        self._task = asyncio.create_task(self.agent.run())
        ready = asyncio.create_task(self.agent.ready.wait())
        await asyncio.wait((self._task, ready), timeout=20, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def clean(self):
        for uid in await self.agent.runtime.pods():
            await self.agent.runtime.remove_sandbox(uid)

    async def until(self, name, holds, within=20):
        seen = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    seen = await self.cluster.get("Pod", name)
                    if (seen is None and holds is None) or (seen is not None and holds is not None and holds(seen)):
                        return seen
                    await asyncio.sleep(0.05)
        raise AssertionError(f"not so within {within} s: {seen and seen.get('status')}")

    async def phase(self, name, phase):
        return await self.until(name, lambda found: found["status"].get("phase") == phase)

    def log(self, found, container="c0", attempt=0):
        text = self.agent.setup.log_path(found, container, attempt).read_text()
        return [line.split(" ", 3)[3] for line in text.splitlines()]


def states(found, kind="containerStatuses"):
    return {each["name"]: each["state"] for each in found["status"].get(kind) or ()}


def ready(found):
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True"


def restarts(found):
    """Of its first container."""
    return next((each["restartCount"] for each in found["status"].get("containerStatuses") or ()), 0)
