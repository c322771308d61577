"""The walk-throughs of docs/walkthroughs.md with the commands that they show, one after the other on one `dray up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DRAY, PATIENCE, eventually, running
from tests.cli.test_up import wait

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.name for path in (EXAMPLES / "walkthroughs").iterdir() if path.is_dir())
PODS = {"1": 2, "2": 2, "3": 3, "4": 2, "5": 3, "6": 3, "7": 2}
"""How many pods each walk-through starts."""


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(folder / "dray.kubeconfig"), "HOME": str(folder)}

    def dray(self, *arguments: str) -> str:
        done = subprocess.run(
            [*DRAY, *arguments], env=self._environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=self._environment)

    def pods(self) -> list[dict[str, Any]]:
        return list(json.loads(self.dray("get", "pods", "-o", "json"))["items"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("walks")
    machines = str(EXAMPLES / "walkthroughs/machines.yaml")
    with running("up", "--plain", "--port", "0", "--fleet", machines, cwd=folder) as up:
        wait(up)
        yield Cluster(folder)
        up.stop()


def test_every_walk_through_runs_as_it_is_written(cluster: Cluster) -> None:
    configurator = cluster.start(sys.executable, str(EXAMPLES / "drivers/image_configurator.py"))
    try:
        expected = 0
        for folder in FOLDERS:
            cluster.dray("apply", "-f", str(EXAMPLES / "walkthroughs" / folder))
            expected += PODS[folder[0]]

            def run() -> bool:
                phases = [pod["status"].get("phase") for pod in cluster.pods()]
                return phases == ["Running"] * expected  # noqa: B023

            assert eventually(run), (folder, cluster.dray("get", "pods"))
        assert "NUMA" in cluster.dray("topology")
    finally:
        configurator.terminate()
        configurator.wait()
