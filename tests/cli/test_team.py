"""A team of five on one machine with eight GPUs: users, queues, sharing, a restart, and the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.cli import up_state
from tests.cli.running import DRAY, PATIENCE, eventually

TEAM = ("ann", "bob", "cid", "dan", "eve")
UP = ("up", "--detach", "--data", "lab", "--simulate", "p4d.24xlarge")


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
        command = ("--workdir", "/", "--", "sleep", "999")
        self.dray("run", "--detach", "--name", "job", "--gpu", str(gpus), *command, user=user)

    def pods(self) -> dict[str, Any]:
        found = json.loads(self.dray("get", "pods", "-A", "-o", "json"))["items"]
        return {pod["metadata"]["namespace"]: pod for pod in found if pod["metadata"]["name"] == "job"}

    def running(self) -> list[str]:
        return sorted(name for name, pod in self.pods().items() if pod["status"].get("phase") == "Running")


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


def test_five_people_share_a_machine_over_a_restart(team: Team) -> None:
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
    assert "3 pods ended" in team.dray("down", "--pods", "--data", "lab")
