"""`dray up --detach`, `dray status` and `dray down`: a cluster in the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dray.process import up_state
from dray.process.identity import started_at
from tests.cli.lab import CLASS, gpus, node
from tests.cli.running import DRAY, PATIENCE, eventually

Dray = Callable[..., Result]
OTHERS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "other", "cluster": {"server": "https://192.0.2.1"}}],
    "contexts": [{"name": "other", "context": {"cluster": "other", "user": "me"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "current-context": "other",
    "preferences": {"colors": True},
}


def dray(folder: Path, *arguments: str) -> tuple[int, str, str]:
    environment = {**os.environ, "KUBECONFIG": str(folder / "mine")}
    done = subprocess.run(
        [*DRAY, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "mine").write_text(yaml.safe_dump(OTHERS))
    yield tmp_path
    state = up_state.read(tmp_path / "data")
    if state is not None:
        os.kill(state.pid, signal.SIGKILL)


def test_a_cluster_in_the_background(run: Dray, folder: Path) -> None:
    (folder / "lab.yaml").write_text(CLASS + node("a") + gpus("a", 2))
    up = ("up", "lab.yaml", "--detach", "--plain", "--port", "0", "--data", "data", "--merge-kubeconfig")
    status, said, complaints = dray(folder, *up)
    assert status == 0, complaints
    assert said.startswith("ready in ")
    assert f"log: {folder}/data/up.log; `dray down --data {folder}/data` stops it" in said
    state = up_state.read(folder / "data")
    assert state is not None
    assert os.getsid(state.pid) == state.pid

    mine = yaml.safe_load((folder / "mine").read_text())
    assert mine["current-context"] == "dray-data"
    assert [each["name"] for each in mine["contexts"]] == ["other", "dray-data"]
    assert run("get", "nodes", "--kubeconfig", str(folder / "mine")).exit_code == 0

    told = run("status", "--data", str(folder / "data"), "-o", "json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["well"], found["nodes"], found["devices"]) == (True, {"a": True}, {"published": 2, "allocated": 0})
    assert found["parts"]["scheduler"] == ""
    assert "1 of 1 ready: a" in run("status", "--data", str(folder / "data")).stdout

    again = dray(folder, *up)
    assert again[0] == 2
    assert "runs already" in again[2]

    ended = run("down", "--data", str(folder / "data"))
    assert (ended.exit_code, ended.stdout.partition(",")[0]) == (0, "stopped: API server")
    assert not up_state.is_running(state)
    assert yaml.safe_load((folder / "mine").read_text()) == OTHERS
    assert run("status", "--data", str(folder / "data")).exit_code == 2
    assert "no cluster runs" in run("down", "--data", str(folder / "data")).stdout


def test_what_keeps_it_from_starting_is_told_in_the_foreground(folder: Path) -> None:
    status, said, complaints = dray(folder, "up", "--detach", "--plain", "--bind", "192.0.2.1", "--data", "data")
    assert (status, said) == (2, "")
    assert "plain HTTP on 192.0.2.1 would give every client full access" in complaints
    assert eventually(lambda: up_state.read(folder / "data") is None)


def test_a_state_that_was_left_behind_counts_for_nothing(tmp_path: Path) -> None:
    state = up_state.UpState(os.getpid(), started_at(os.getpid()), "now", "http://127.0.0.1:1", "")
    with up_state.kept(tmp_path, state):
        assert up_state.read(tmp_path) == state
        other = up_state.UpState(os.getpid(), "1", "then", "http://127.0.0.1:1", "")
        with up_state.kept(tmp_path, other):
            # A process of that number runs, but it started at another moment.
            assert up_state.read(tmp_path) is None
    assert up_state.read(tmp_path) is None


def test_commands_find_the_cluster_that_runs_here(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}

    def dray(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*DRAY, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)

    missing = dray("get", "namespaces")
    assert missing.returncode == 2
    assert "no kubeconfig" in missing.stderr
    try:
        for data in ("one", "two"):
            assert dray("up", "--detach", "--plain", "--port", "0", "--data", data).returncode == 0
            found = dray("get", "namespaces")
            shown = dray("status")
            if data == "one":
                assert "kube-system" in found.stdout, found.stderr
                assert (shown.returncode, f"{tmp_path}/one/kubeconfig" in shown.stdout) == (0, True)
                # Only the cluster that is named is stopped.
                assert f"; clusters run with {tmp_path}/one: name one with --data" in dray("down").stdout
        assert f"; clusters run with {tmp_path}/one, {tmp_path}/two: name one with --data" in shown.stdout
        assert found.returncode == 2
        assert f"2 clusters run here; choose one: --kubeconfig {tmp_path}/one/kubeconfig" in found.stderr
        assert dray("get", "namespaces", "--kubeconfig", "two/kubeconfig").returncode == 0
    finally:
        for data in ("one", "two"):
            dray("down", "--data", data)
    assert dray("get", "namespaces").returncode == 2
