"""A team of five on one machine with eight GPUs, with real commands from nothing to the end.

They get accounts and queues, share GPUs, survive a restart and a reboot, and add a second machine. The upgrade from
an earlier version is in test_upgrade.py. The other persons of the first day have tests of their own: somebody with a
GPU box in test_gpu_box.py and test_gpu_box_as_found.py, somebody who follows articles in simulated/test_articles.py
and test_walkthroughs.py, somebody who debugs in test_broken_manifests.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.process import up_state
from tests.cli.reboots import kill_all
from tests.cli.running import DRAY, PATIENCE, Running, eventually

TEAM = ("ann", "bob", "cid", "dan", "eve")
UP = ("up", "--detach", "--data", "lab", "--simulate", "p4d.24xlarge")
SERVICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: service}
spec:
  selector: {matchLabels: {app: service}}
  template:
    metadata: {labels: {app: service}}
    spec:
      terminationGracePeriodSeconds: 1
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      containers:
      - {name: c, image: busybox, command: [sh, -c, "echo serving; exec sleep 999"], resources: {claims: [{name: gpu}]}}
"""


class Team:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def dray(self, *arguments: str, user: str = "", status: int = 0) -> str:
        config = self.folder / (f"{user}.kubeconfig" if user else "lab/kubeconfig")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(config)}
        done = subprocess.run(
            [*DRAY, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run_in_background(self, user: str, gpus: int) -> None:
        command = ("--workdir", "/", "--", "sh", "-c", "echo begun; exec sleep 999")
        self.dray("run", "--detach", "--name", "job", "--gpu", str(gpus), *command, user=user)

    def pods(self) -> dict[str, Any]:
        found = json.loads(self.dray("get", "pods", "-A", "-o", "json"))["items"]
        return {pod["metadata"]["namespace"]: pod for pod in found if pod["metadata"]["name"] == "job"}

    def running(self) -> list[str]:
        return self.in_phase("Running")

    def in_phase(self, phase: str) -> list[str]:
        return sorted(name for name, pod in self.pods().items() if pod["status"].get("phase") == phase)

    def service(self) -> dict[str, Any]:
        """Returns the state of Eve's service: the pod, how often it was restarted, its device."""
        (pod,) = json.loads(self.dray("get", "pods", "-l", "app=service", "-o", "json", user="eve"))["items"]
        (claim,) = json.loads(self.dray("get", "resourceclaims", "-o", "json", user="eve"))["items"]
        (container,) = pod["status"].get("containerStatuses") or ({},)
        return {
            "uid": pod["metadata"]["uid"],
            "runs": "running" in container.get("state", {}),
            "restarts": container.get("restartCount"),
            "devices": claim["status"]["allocation"]["devices"]["results"],
        }

    def reboot(self) -> None:
        """Kills everything that the cluster started, as a power failure does, and starts the cluster again."""
        state = up_state.read(self.folder / "lab")
        assert state is not None
        kill_all(self.folder, state.pid)
        self.dray(*UP)

    @contextlib.contextmanager
    def second_machine(self) -> Iterator[None]:
        """Joins another agent, with a directory of its own, by the command that `dray join-token` prints."""
        line = self.dray("join-token", "-o", "command").splitlines()[0].split()
        assert line[:3] == ["dray", "node", "--join"]
        own = ("--root", str(self.folder / "second"), "--node-name", "second", "--port", "0")
        agent = Running(*line[1:], *own, "--no-driver", "cpu", cwd=self.folder)
        try:
            eventually(lambda: "second" in self.dray("get", "nodes"))
            yield
            assert agent.stop()[0] == 0
        finally:
            agent.process.kill()
            agent.process.communicate()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    yield Team(tmp_path)
    if up_state.last(tmp_path / "lab") is not None:
        Team(tmp_path).dray("down", "--pods", "--data", "lab")


def free_port() -> int:
    """The users' kubeconfigs name the port, which the next start uses again."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_five_people_share_a_machine_over_a_reboot_and_get_a_second_one(team: Team) -> None:
    team.dray(*UP, "--port", str(free_port()))
    for name in TEAM:
        assert f"user {name} created" in team.dray("user", "add", name, "--gpus", "1")
    # Ann borrows what the others leave idle.
    team.run_in_background("ann", 3)
    eventually(lambda: team.running() == ["ann"])
    assert "ann" in team.dray("queue", user="bob")
    for name in ("bob", "cid"):
        team.run_in_background(name, 1)
    eventually(lambda: team.running() == ["ann", "bob", "cid"])
    # The quota of all five is in use: Dan takes his own back.
    team.run_in_background("dan", 1)
    eventually(lambda: team.running() == ["bob", "cid", "dan"])
    # Nobody gets more than the quota of all.
    refused = team.dray("run", "--gpu", "6", "--timeout", "0", "--", "true", user="eve", status=124)
    assert "ClusterQueue eve" in refused
    before = {name: pod["metadata"]["uid"] for name, pod in team.pods().items()}
    assert "pods of this machine keep running: `dray down --pods --data /" in team.dray("down", "--data", "lab")
    team.dray(*UP)
    eventually(lambda: team.running() == ["bob", "cid", "dan"])
    assert {name: pod["metadata"]["uid"] for name, pod in team.pods().items()} == before
    # The users' kubeconfigs still lead there.
    assert "Running" in team.dray("get", "pods", user="bob")
    # A service of Eve, who has not used her quota yet.
    (team.folder / "service.yaml").write_text(SERVICE)
    team.dray("apply", "-f", "service.yaml", user="eve")
    served = eventually(lambda: found if (found := team.service())["runs"] else None)

    team.reboot()
    # As docs/operations.md says: jobs have failed and keep their logs, a service is restarted with the same device.
    eventually(lambda: team.in_phase("Failed") == ["bob", "cid", "dan"])
    states = [pod["status"]["containerStatuses"][0]["state"] for pod in team.pods().values()]
    assert [state["terminated"]["exitCode"] for state in states] == [137] * 3
    assert {name: pod["metadata"]["uid"] for name, pod in team.pods().items()} == before
    assert team.dray("logs", "job", user="bob") == "begun\n"
    again = eventually(lambda: found if (found := team.service())["runs"] else None)
    assert again == {**served, "restarts": 1}
    assert [line.split()[0] for line in team.dray("user", "list").splitlines()[1:]] == list(TEAM)
    # The quota of the jobs is free: Ann's next job gets four GPUs.
    team.dray("delete", "pod", "job", "--ignore-not-found", user="ann")
    team.run_in_background("ann", 4)
    eventually(lambda: team.running() == ["ann"])

    with team.second_machine():
        out = team.dray("run", "--node", "second", "--workdir", "/", "--", "sh", "-c", "echo on $HOSTNAME", user="bob")
        assert "on node second" in out
        nodes = team.dray("get", "nodes")
        assert {line.split()[0]: line.split()[1] for line in nodes.splitlines()[1:]} == {
            "p4d-24xlarge-0": "Ready",
            "second": "Ready",
        }
    assert "2 pods ended" in team.dray("down", "--pods", "--data", "lab")
