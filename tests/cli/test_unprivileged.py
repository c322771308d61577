"""`dray up --node` for a user who is not root: what can work does, and what cannot says so."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import dray
from tests.cli.running import PATIENCE, eventually

NOBODY = 65534
PODS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  restartPolicy: Never
  volumes: [{name: c, configMap: {name: c}}, {name: e, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "id -u; cat /config/a; echo; echo x > /part/x; cat /scratch/new/part/x"]
    volumeMounts:
    - {name: c, mountPath: /config}
    - {name: e, mountPath: /scratch}
    - {name: e, mountPath: /part, subPath: new/part}
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: busybox, command: ["true"], securityContext: {runAsUser: 1234}}
"""


@contextlib.contextmanager
def as_nobody(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The command in a directory of its own, by an interpreter that this user may run."""
    if os.geteuid() != 0:
        pytest.skip("only root starts processes of other users")
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = ":".join(
        [str(Path(dray.__file__).parent.parent), *(each for each in sys.path if "site-packages" in each)]
    )
    folder = Path(tempfile.mkdtemp(prefix="dray-"))
    os.chown(folder, NOBODY, NOBODY)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": packages, "PYTHONUNBUFFERED": "1"}
    options: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": folder, "env": environment}
    for python in (sys.executable, f"/usr/bin/{own}"):
        with contextlib.suppress(OSError):
            trial = [python, "-c", "import dray.cli"]
            if subprocess.run(trial, check=False, stderr=subprocess.DEVNULL, **options).returncode == 0:
                break
    else:
        shutil.rmtree(folder)
        pytest.skip("no interpreter that nobody may run")
    command = [python, "-c", "from dray.cli import main; main()", *arguments]
    (folder / "pods.yaml").write_text(PODS)
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, **options)
    try:
        yield process, folder
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def get(url: str) -> Any:
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except HTTPError as error:
        error.close()
        return ""


def test_pods_run_with_volumes_and_what_needs_root_says_so() -> None:
    with as_nobody("up", "pods.yaml", "--port", "0", "--plain", "--node", "--data", "data") as (process, _):
        lines = []
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("export "):
            assert line, lines
            lines.append(line)
        url = next(word for word in " ".join(lines).split() if word.startswith("http://"))
        pods = f"{url}/api/v1/namespaces/default/pods"
        assert "limits of cpu and memory are not enforced" in " ".join(lines) or os.access("/sys/fs/cgroup", os.W_OK)

        def state(name: str) -> Any:
            status = json.loads(get(f"{pods}/{name}"))["status"].get("containerStatuses") or [{"state": {}}]
            return status[0]["state"]

        assert eventually(lambda: state("other").get("waiting", {}).get("message")) == (
            "user 1234: only root runs processes of other users"
        )
        ended = eventually(lambda: state("plain").get("terminated") or state("plain").get("waiting", {}).get("message"))
        if isinstance(ended, str):
            # Without user namespaces nothing can be mounted.
            assert "--runtime podman" in ended
        else:
            assert ended["exitCode"] == 0
            assert get(f"{pods}/plain/log").split() == [str(NOBODY), "1", "x"]


def ready(process: subprocess.Popen[str]) -> str:
    """The address of the server once it is ready."""
    lines = []
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("export "):
        assert line, lines
        lines.append(line)
    return next(word for word in " ".join(lines).split() if word.startswith("http://"))


def test_device_files_of_drivers_are_hidden_in_user_namespaces() -> None:
    with as_nobody("up", "--port", "0", "--plain", "--node", "--data", "data") as (process, folder):
        url = ready(process)
        trial = subprocess.run(["unshare", "-Um", "true"], user=NOBODY, group=NOBODY, check=False, capture_output=True)
        if trial.returncode:
            pytest.skip("this user may make no user namespaces")
        lamp = folder / "lamp0"
        os.mkfifo(lamp)
        plugin = folder / "data/node/plugins/lamps.example.com"
        plugin.mkdir(parents=True)
        (plugin / "device-files.json").write_text(json.dumps([f"{folder}/lamp*"]))
        for path in (plugin.parent, plugin, plugin / "device-files.json", lamp):
            os.chown(path, NOBODY, NOBODY)
        script = f"test -p {lamp} && echo seen || echo hidden"
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        pod = {"metadata": {"name": "looks"}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        pods = f"{url}/api/v1/namespaces/default/pods"
        request = Request(pods, json.dumps(pod).encode(), {"content-type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            assert answer.status == 201
        assert eventually(lambda: json.loads(get(f"{pods}/looks"))["status"]["phase"] == "Succeeded")
        assert get(f"{pods}/looks/log") == "hidden\n"
