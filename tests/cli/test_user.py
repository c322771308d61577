"""`dray user`: people who share a machine, each with a namespace, a queue and a kubeconfig of their own."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import DRAY, PATIENCE, eventually, running
from tests.cli.test_up import wait


class Box:
    """A machine with eight GPUs that several people use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def dray(self, *arguments: str, user: str = "") -> subprocess.CompletedProcess[str]:
        config = self.folder / (f"{user}.kubeconfig" if user else "dray.kubeconfig")
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder), "KUBECONFIG": str(config)}
        return subprocess.run(
            [*DRAY, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("box")
    with running("up", "--port", "0", "--simulate", "p4d.24xlarge", cwd=folder) as up:
        wait(up)
        yield Box(folder)
        up.stop()


@pytest.fixture(scope="module")
def ann(box: Box) -> Iterator[str]:
    added = box.dray("user", "add", "ann", "--gpus", "1")
    assert added.returncode == 0, added.stderr
    assert f"export KUBECONFIG={box.folder}/ann.kubeconfig" in added.stdout
    yield "ann"
    box.dray("user", "remove", "ann", "--yes")
    eventually(lambda: box.dray("get", "namespace", "ann").returncode == 1)


def test_a_user_runs_commands_and_sees_devices_queues_and_reasons(box: Box, ann: str) -> None:
    assert (box.folder / "ann.kubeconfig").stat().st_mode & 0o077 == 0
    done = box.dray("run", "--gpu", "1", "--", "nvidia-smi", "-L", user=ann)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("GPU ")
    # The pod is in the user's queue by itself.
    much = box.dray("run", "--gpu", "2", "--timeout", "0", "--", "true", user=ann)
    assert "can never fit: ClusterQueue ann has 1 gpu.nvidia.com at most" in much.stderr
    spec = (
        '{containers: [{name: c, image: none, command: [sleep, "9"],'
        " resources: {requests: {cpu: 100m, memory: 10Mi, ephemeral-storage: 1Mi}}}]}"
    )
    (box.folder / "pod.yaml").write_text(f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}")
    assert box.dray("apply", "-f", "pod.yaml", user=ann).returncode == 0
    for command in (["top"], ["devices"], ["queue"], ["explain", "pod/p"], ["topology"]):
        shown = box.dray(*command, user=ann)
        assert shown.returncode == 0, (command, shown.stdout, shown.stderr)


def test_a_user_touches_nothing_of_others(box: Box, ann: str) -> None:
    for command in (
        ["get", "secrets", "-n", "kube-system"],
        ["run", "-n", "default", "--", "true"],
        ["delete", "clusterqueue", "ann"],
        ["user", "add", "friend"],
    ):
        refused = box.dray(*command, user=ann)
        assert refused.returncode == 1, command
        assert "is forbidden" in refused.stderr, command


@pytest.mark.parametrize("priority", ["system-cluster-critical", "system-node-critical"])
def test_a_user_evicts_nobody_with_critical_pods(box: Box, ann: str, priority: str) -> None:
    spec = f"{{priorityClassName: {priority}, containers: [{{name: c, image: none}}]}}"
    (box.folder / "pod.yaml").write_text(f"{{apiVersion: v1, kind: Pod, metadata: {{name: q}}, spec: {spec}}}")
    refused = box.dray("apply", "-f", "pod.yaml", user=ann)
    assert refused.returncode == 1
    assert "exceeded quota: critical-pods" in refused.stderr


def test_users_are_listed_and_a_removed_user_is_locked_out(box: Box, ann: str) -> None:
    assert box.dray("user", "add", "eve", "--admin").returncode == 0
    rows = [line.split() for line in box.dray("user", "list").stdout.splitlines()]
    assert rows == [["USER", "QUEUE", "GPUS", "RIGHTS"], ["ann", "ann", "1", "edit"], ["eve", "admin"]]
    assert box.dray("get", "nodes", user="eve").returncode == 0
    removed = box.dray("user", "remove", "eve", "--yes")
    assert removed.stdout == "user eve removed\n"
    assert eventually(lambda: box.dray("get", "nodes", user="eve").returncode == 1)
    names = json.loads(box.dray("get", "clusterrolebindings", "-o", "json").stdout)["items"]
    assert not [binding for binding in names if binding["metadata"]["name"].endswith(":eve")]
    missing = box.dray("user", "remove", "eve", "--yes")
    assert missing.returncode == 1
    assert "user eve not found" in missing.stderr


def test_users_share_a_queue_that_stays_when_one_is_removed(box: Box) -> None:
    for arguments in (["tim", "--queue", "team", "--gpus", "1"], ["kim", "--queue", "team"]):
        added = box.dray("user", "add", *arguments)
        assert added.returncode == 0, added.stderr
    rows = [line.split() for line in box.dray("user", "list").stdout.splitlines()]
    assert ["tim", "team", "1", "edit"] in rows
    assert ["kim", "team", "1", "edit"] in rows
    quota = next(line for line in box.dray("queue", "team").stdout.splitlines() if " cpu " in line)
    assert " 1000000 " in quota
    assert "e+" not in box.dray("queue").stdout
    assert box.dray("user", "remove", "tim", "--yes").returncode == 0
    ran = box.dray("run", "--timeout", "60s", "--", "echo", "works", user="kim")
    assert (ran.returncode, ran.stdout) == (0, "works\n"), ran.stderr
    assert box.dray("user", "remove", "kim", "--yes").returncode == 0
    assert box.dray("delete", "clusterqueue", "team").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Ann"], "use lower-case letters, digits and '-'"),
        (["kube-system"], "is a namespace of the cluster itself"),
        (["bob", "--queue", "none"], "ClusterQueue none not found"),
        (["bob", "--queue", "anna"], "did you mean ann?"),
        (["bob", "--queue", "ann", "--gpus", "2"], "ClusterQueue ann exists; leave out --gpus"),
    ],
)
def test_mistakes_are_told_and_change_nothing(box: Box, ann: str, arguments: list[str], said: str) -> None:
    done = box.dray("user", "add", *arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert box.dray("get", "namespace", "bob").returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone runs pods as other users")
def test_pods_of_a_user_run_as_an_account_of_the_machine(box: Box) -> None:
    account = pwd.getpwnam("nobody")
    added = box.dray("user", "add", "bob", "--unix-account", account.pw_name)
    assert added.returncode == 0, added.stderr
    try:
        done = box.dray("run", "--workdir", "/", "--", "sh", "-c", "id -u; echo $HOME", user="bob")
        assert done.stdout.split() == [str(account.pw_uid), account.pw_dir], done.stderr
    finally:
        box.dray("user", "remove", "bob", "--yes")
    refused = box.dray("user", "add", "bob", "--unix-account", "nosuchaccount")
    assert "there is no account nosuchaccount on this machine" in refused.stderr
