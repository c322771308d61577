"""A data directory that an earlier version wrote starts with this one.

`upgrade/before_day_one.tar.gz` was written by commit 72ca798: `dray up objects.yaml --node --data data` with the
objects of `upgrade/objects.yaml`, on a machine named vm, then `dray down --pods`. That version removed the records of
containers.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.running import Running, eventually
from tests.cli.test_up import wait
from tests.cli.test_up_node import pods

Dray = Callable[..., Result]
ARCHIVE = Path(__file__).parent / "upgrade/before_day_one.tar.gz"
# The node has the name of the machine, and takes up the pods of the node of that name.
NAMED = ("unshare", "--uts", "sh", "-c", 'hostname vm; exec "$@"', "sh")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="tar")
    # A file in an archive of git may be open to others.
    (tmp_path / "data/store").chmod(0o700)
    return tmp_path / "data"


def test_objects_of_the_version_before_are_there_and_can_be_changed(run: Dray, data: Path) -> None:
    up = Running("up", "--port", "0", "--plain", "--data", "data", cwd=data.parent)
    config = str(data / "kubeconfig")
    try:
        wait(up)
        found = run("get", "configmap", "kept", "-o", "json", "--kubeconfig", config)
        assert json.loads(found.stdout)["data"] == {"written-by": "the version before"}
        claims = json.loads(run("get", "resourceclaims", "-o", "json", "--kubeconfig", config).stdout)["items"]
        assert [bool(claim["status"]["allocation"]) for claim in claims] == [True]
        assert run("delete", "configmap", "kept", "--kubeconfig", config).exit_code == 0
        assert up.stop()[0] == 0
    finally:
        up.process.kill()
        up.process.communicate()
    # And once more, with what this version wrote.
    up = Running("up", "--port", "0", "--plain", "--data", "data", cwd=data.parent)
    try:
        wait(up)
        assert run("get", "configmap", "kept", "--kubeconfig", config).exit_code != 0
        assert up.stop()[0] == 0
    finally:
        up.process.kill()
        up.process.communicate()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="gives the machine another name")
def test_pods_of_the_version_before_are_taken_up(run: Dray, data: Path) -> None:
    config = data / "kubeconfig"
    up = Running("up", "--port", "0", "--plain", "--node", "--data", "data", cwd=data.parent, prefix=NAMED)
    try:
        wait(up)

        def phase(start: str) -> str:
            found = [pod for name, pod in pods(run, config).items() if name.startswith(start)]
            return str(found[0]["status"].get("phase")) if found else ""

        # It ran once, whatever the records say.
        assert eventually(lambda: phase("once-") in ("Failed", "Succeeded") and phase("once-")) == "Failed"
        (log,) = data.glob("node/logs/default_once-*/main/0.log")
        assert log.read_text().count("of the old version") == 1
        statuses = eventually(lambda: _running(pods(run, config)["service"]))
        assert statuses[0]["restartCount"] == 1
        run("delete", "pod", "service", "--kubeconfig", str(config))
        assert eventually(lambda: "service" not in pods(run, config))
        assert up.stop()[0] == 0
    finally:
        up.process.kill()
        up.process.communicate()


def _running(pod: dict[str, object]) -> list[dict[str, object]]:
    status = pod.get("status")
    assert isinstance(status, dict)
    return [each for each in status.get("containerStatuses") or [] if "running" in each["state"]]
