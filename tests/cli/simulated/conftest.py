"""One `dray up` for the tests of this folder: this machine, one with A100s, one with a shared H100, and a fleet."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dray.cli import main
from tests.cli.running import PATIENCE, eventually, running
from tests.cli.test_up import wait

KUBECTL = shutil.which("kubectl")
FLEET = Path(__file__).parent / "articles/fleet.yaml"
A100, SHARED = "p4d-24xlarge-0", "a3-highgpu-1g-0"


class Up:
    """A running cluster and the ways to ask it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.config = folder / "data/kubeconfig"
        self._started: list[subprocess.Popen[str]] = []

    def dray(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, env={"KUBECONFIG": str(self.config)}, catch_exceptions=False)

    def command(self, *arguments: str, status: int = 0) -> str:
        """Runs a command of dray as a process of its own, and returns its output."""
        started = self.start(*arguments)
        out, err = started.communicate(timeout=PATIENCE)
        assert started.returncode == status, out + err
        return out

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command of dray as a process of its own, which ends with the test at the latest."""
        program = [sys.executable, "-c", "from dray.cli import main; main()", *arguments]
        pipe = subprocess.PIPE
        environment = {"KUBECONFIG": str(self.config), "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
        self._started.append(subprocess.Popen(program, stdout=pipe, stderr=pipe, text=True, env=environment))
        return self._started[-1]

    def end_started(self) -> None:
        for each in self._started:
            each.kill()
            each.communicate()
        self._started.clear()

    def kubectl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        assert KUBECTL is not None
        command = [KUBECTL, "--kubeconfig", str(self.config), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def apply(self, text: str) -> None:
        file = self.folder / "applied.yaml"
        file.write_text(text)
        done = self.dray("apply", "-f", str(file))
        assert done.exit_code == 0, done.output

    def items(self, kinds: str) -> list[Any]:
        found = json.loads(self.dray("get", kinds, "-o", "json").stdout)
        return list(found["items"])

    def named(self, kind: str) -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in self.items(kind)}


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    simulated = "p4d.24xlarge,a3-highgpu-1g:shared-memory"
    notify = f"sh -c 'cat > {folder}/told.$$'"
    arguments = ("--plain", "--node", "--simulate", simulated, "--fleet", str(FLEET), "--data", "data")
    # The articles start their cluster with the gate.
    arguments += ("--notify-command", notify, "--feature-gates=DynamicResourceAllocation=true")
    with running("up", "--port", "0", *arguments, cwd=folder) as up:
        url = next(word for word in " ".join(wait(up)).split() if word.startswith("http://"))
        found = Up(folder, url)
        eventually(lambda: len(found.items("resourceslices")) >= 6)
        yield found
        for each in found.items("pods"):
            found.dray("delete", "pod", each["metadata"]["name"], "--grace-period", "0")
        eventually(lambda: not found.items("pods"))
        up.stop()


@pytest.fixture
def up(started: Up) -> Iterator[Up]:
    yield started
    started.end_started()
    for each in started.items("pods"):
        started.dray("delete", "pod", each["metadata"]["name"], "--no-wait", "--grace-period", "1")
    for kind in ("jobs", "resourceclaims", "resourceclaimtemplates"):
        for each in started.items(kind):
            started.dray("delete", kind, each["metadata"]["name"], "--no-wait", "--ignore-not-found")
    eventually(lambda: not started.items("pods,resourceclaims"))
