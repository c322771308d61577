"""`dray down`: what it ends, and what it leaves. Any process that a state names stands for the cluster here."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from dray.cli import down
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.process import ProcessRuntime
from dray.process import up_state
from dray.process.identity import started_at
from dray.process.up_state import UpNode, UpState
from tests.cli.running import eventually, running
from tests.cli.test_up import wait

Dray = Callable[..., Result]


@pytest.fixture
def command() -> list[str]:
    """The command line of the process that stands for the cluster."""
    return ["sleep", "1000"]


@pytest.fixture
def cluster(tmp_path: Path, command: list[str]) -> Iterator[Path]:
    """A directory in which something runs, with a node."""
    with subprocess.Popen(command) as process:
        nodes = (UpNode("n", str(tmp_path / "node"), "process"),)
        state = UpState(process.pid, started_at(process.pid), "2030-01-01T00:00:00Z", "http://x", "", nodes)
        with up_state.kept(tmp_path, state):
            yield tmp_path
        process.kill()


async def _start(root: Path) -> None:
    runtime = ProcessRuntime(root / "run", cdi_directories=[])
    await runtime.create_sandbox(SandboxConfig(pod_uid="uid", namespace="default", name="p"))
    command = ("sh", "-c", f"echo $$ > {root}/pid; sleep 1000")
    await runtime.start(
        ContainerConfig(
            pod_uid="uid",
            namespace="default",
            pod_name="p",
            name="c",
            attempt=0,
            image="busybox",
            command=command,
            args=(),
            log_path=root / "log",
        )
    )
    async with asyncio.timeout(30):
        while not (root / "pid").exists() or not (root / "pid").read_text():
            await asyncio.sleep(0.02)


def test_pods_go_on_unless_they_are_to_end(run: Dray, cluster: Path) -> None:
    asyncio.run(_start(cluster / "node"))
    pid = int((cluster / "node/pid").read_text())
    ended = run("down", "--data", str(cluster), "--pods")
    assert ended.exit_code == 0, ended.output
    expected = (
        "stopped: API server, scheduler, controllers, node n, at http://x since 2030-01-01T00:00:00Z; 1 pod ended"
    )
    assert ended.stdout == expected + "\n"
    assert not Path(f"/proc/{pid}").exists()


def test_without_being_told_so_they_are_left(run: Dray, cluster: Path) -> None:
    assert run("down", "--data", str(cluster)).stdout.endswith(
        f"; pods of this machine keep running: `dray down --pods --data {cluster}` ends them\n"
    )
    assert up_state.read(cluster) is None


@pytest.mark.parametrize("command", [["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]])
def test_a_cluster_that_does_not_end_is_killed_and_its_pods_end(
    run: Dray, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(down, "_PATIENCE", 0.3)
    asyncio.run(_start(cluster / "node"))
    pid = int((cluster / "node/pid").read_text())
    state = up_state.read(cluster)
    assert state is not None
    ended = run("down", "--data", str(cluster), "--pods")
    assert (ended.exit_code, "1 pod ended" in ended.stdout) == (0, True), ended.output
    assert f"process {state.pid} has not ended within 0.3 s and is killed" in ended.stderr
    assert not Path(f"/proc/{pid}").exists()


def test_pods_of_which_only_a_part_was_started_end(run: Dray, cluster: Path) -> None:
    """The agent may have been killed between the directory of a container and its start."""
    asyncio.run(_start(cluster / "node"))
    (cluster / "node/run/containers/other.c.0").mkdir()
    ended = run("down", "--data", str(cluster), "--pods")
    assert (ended.exit_code, ended.stdout.endswith("; 1 pod ended\n")) == (0, True), ended.output
    assert not (cluster / "node/run/containers/other.c.0").exists()


def test_a_pod_that_does_not_end_is_told(run: Dray, cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_start(cluster / "node"))
    (cluster / "node/run/pods/other").mkdir()
    end_pod = ProcessRuntime.end_pod

    async def fails(runtime: ProcessRuntime, uid: str) -> bool:
        if uid == "other":
            raise OSError("it is stuck")
        return await end_pod(runtime, uid)

    monkeypatch.setattr(ProcessRuntime, "end_pod", fails)
    ended = run("down", "--data", str(cluster), "--pods")
    assert (ended.exit_code, ended.stdout.endswith("; 1 pod ended\n")) == (2, True), ended.output
    assert ended.stderr == "error: pod other: it is stuck\n"


def test_pods_of_a_cluster_that_has_ended_are_ended_later(run: Dray, tmp_path: Path) -> None:
    nodes = (UpNode("n", str(tmp_path / "node"), "process"),)
    with up_state.kept(tmp_path, UpState(1, "long ago", "2030-01-01T00:00:00Z", "http://x", "", nodes)):
        asyncio.run(_start(tmp_path / "node"))
    pid = int((tmp_path / "node/pid").read_text())
    assert run("down", "--data", str(tmp_path)).stdout == f"no cluster runs with {tmp_path}\n"
    assert Path(f"/proc/{pid}").exists()
    assert run("down", "--data", str(tmp_path), "--pods").stdout == f"no cluster runs with {tmp_path}; 1 pod ended\n"
    assert not Path(f"/proc/{pid}").exists()
    assert run("down", "--data", str(tmp_path), "--pods").stdout == f"no cluster runs with {tmp_path}\n"


def test_ctrl_c_says_which_pods_keep_running_and_how_to_end_them(run: Dray) -> None:
    with tempfile.TemporaryDirectory(prefix="dray-") as made:
        folder = Path(made)
        with running("up", "--port", "0", "--node", "--data", "data", cwd=folder) as up:
            wait(up)
            config = ("--kubeconfig", f"{folder}/data/kubeconfig")
            assert run("run", *config, "--detach", "--name", "stays", "--", "sleep", "600").exit_code == 0
            phase = ("get", "pod", "stays", "-o", "jsonpath={.status.phase}", *config)
            eventually(lambda: run(*phase).stdout == "Running")
            up.stop(signal.SIGINT)
            said = up.line()
        place = f"{folder}/data"
        ended = run("down", "--pods", "--data", place).stdout
        assert said == (
            f"stopped; 1 pod keeps running: default/stays. `dray up --data {place}` finds it again, "
            f"`dray down --pods --data {place}` ends it."
        )
        assert ended == f"no cluster runs with {place}; 1 pod ended\n"
