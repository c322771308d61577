"""A cluster of several machines, each in a network namespace: they join, one is killed and comes back, one is cut off.

Every container writes a line when it starts and one when it ends, on the disk that the machines share: whatever
happens to agents and connections, each pod starts once and ends once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from tests.cli.networks import Machine, Network, network, processes_below
from tests.cli.running import Running, eventually, running
from tests.cli.test_up import wait

Dray = Callable[..., Result]
# A minute in `make soak`: long enough for the server to count the node as lost.
CUT_SECONDS = float(os.environ.get("DRAY_CUT_SECONDS", "3"))
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s}
spec:
  nodeSelector: {kubernetes.io/hostname: %(node)s}
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox
    workingDir: %(folder)s
    command:
    - sh
    - -c
    - echo start $POD >> lines; echo hello from $POD; until [ -e end ]; do sleep 0.2; done; echo end $POD >> lines
    env: [{name: POD, value: %(name)s}]
---
"""


class Lab:
    def __init__(self, run: Dray, folder: Path, join: list[str]) -> None:
        self._run = run
        self.folder = folder
        self._join = join
        self.config = str(folder / "data/kubeconfig")

    def get(self, *arguments: str) -> Any:
        result = self._run("get", *arguments, "-o", "json", "--kubeconfig", self.config)
        return json.loads(result.stdout)["items"] if result.exit_code == 0 else []

    def start(self, machine: Machine, *, joining: bool) -> Running:
        """An agent; one that has joined before needs no token."""
        line = self._join if joining else ["dray", "node"]
        root = ("--root", str(self.folder / machine.name), "--node-name", machine.name, "--driver", "none")
        return Running(*line[1:], *root, cwd=self.folder, prefix=machine.prefix)

    def apply(self, *pods: tuple[str, str]) -> None:
        text = "".join(POD % {"name": name, "node": node, "folder": self.folder} for name, node in pods)
        (self.folder / "pods.yaml").write_text(text)
        result = self._run("apply", "-f", str(self.folder / "pods.yaml"), "--kubeconfig", self.config)
        assert result.exit_code == 0, result.output

    def lines(self) -> Counter[str]:
        path = self.folder / "lines"
        return Counter(path.read_text().splitlines() if path.exists() else [])

    def phases(self) -> dict[str, str]:
        return {each["metadata"]["name"]: each["status"].get("phase", "") for each in self.get("pods")}

    def log(self, name: str) -> str:
        async def read() -> bytes:
            endpoint = Kubeconfig.load([Path(self.config)]).endpoint()
            async with ApiClient(HttpTransport(endpoint)) as client:
                path = f"/api/v1/namespaces/default/pods/{name}/log"
                return b"".join([piece async for piece in client.stream(path)])

        try:
            return asyncio.run(read()).decode()
        except ClientError as error:
            return str(error)

    def ready(self, name: str) -> bool:
        for node in self.get("nodes"):
            if node["metadata"]["name"] == name:
                conditions = node["status"].get("conditions") or ()
                return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
        return False


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture
def lab(run: Dray, net: Network, tmp_path: Path) -> Iterator[Lab]:
    options = ("--data", "data", "--port", "0", "--bind", net.address, "--join-token")
    with running("up", *options, cwd=tmp_path) as process:
        (line,) = [each for each in wait(process) if "join with: " in each]
        yield Lab(run, tmp_path, line.partition("join with: ")[2].split())
        assert process.stop(signal.SIGINT)[0] == 0


@contextlib.contextmanager
def agents(lab: Lab) -> Iterator[dict[str, Running]]:
    """By machine. They end with the block, and so does what they started."""
    made: dict[str, Running] = {}
    try:
        yield made
    finally:
        for each in made.values():
            if each.process.poll() is None:
                each.process.kill()
            each.process.communicate()
        for pid in (pid for name in made for pid in processes_below(lab.folder / name)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_nothing_runs_twice_and_nothing_is_lost(net: Network, lab: Lab) -> None:
    first, second = net.machine("a"), net.machine("b")
    with agents(lab) as running_agents:
        for machine in (first, second):
            running_agents[machine.name] = lab.start(machine, joining=True)
        assert eventually(lambda: lab.ready("a") and lab.ready("b"))
        lab.apply(("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))
        started = Counter(f"start {name}" for name in ("a1", "a2", "b1", "b2"))
        assert eventually(lambda: lab.lines() == started)

        # The server reaches each agent at the address of its machine.
        assert eventually(lambda: lab.log("a1") == "hello from a1\n")
        assert eventually(lambda: lab.log("b1") == "hello from b1\n")

        # One agent is killed: its pods go on, what comes meanwhile waits for the next one.
        running_agents["a"].process.kill()
        running_agents["a"].process.communicate()
        lab.apply(("a3", "a"))
        running_agents["a"] = lab.start(first, joining=False)
        started["start a3"] += 1
        assert eventually(lambda: lab.lines() == started)

        # The other one is cut off, with its pods running and a new one for it.
        second.cut_off()
        lab.apply(("b3", "b"))
        time.sleep(CUT_SECONDS)
        assert lab.lines() == started
        # After 50 seconds without a word a node counts as lost; its pods are given five minutes more.
        assert CUT_SECONDS < 60 or eventually(lambda: not lab.ready("b"))
        second.connect()
        assert eventually(lambda: lab.ready("b"))
        started["start b3"] += 1
        assert eventually(lambda: lab.lines() == started)

        (lab.folder / "end").touch()
        names = ("a1", "a2", "a3", "b1", "b2", "b3")
        assert eventually(lambda: set(lab.phases().values()) == {"Succeeded"})
        assert set(lab.phases()) == set(names)
        assert lab.lines() == started + Counter(f"end {name}" for name in names)
