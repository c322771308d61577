"""`dray up --node --runtime podman`: a pod of real containers that sees the devices of its claims, and no others."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import Result

from tests.cli.running import eventually, running
from tests.cli.test_up import wait
from tests.node.runtimes import busybox

Dray = Callable[..., Result]
KUBECTL = shutil.which("kubectl")
MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: devices}
spec:
  spec:
    devices:
      requests:
      - {name: cpu, exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: "1"}}}}
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  terminationGracePeriodSeconds: 1
  hostname: trainer
  resourceClaims: [{name: devices, resourceClaimTemplateName: devices}]
  volumes: [{name: data, emptyDir: {}}]
  initContainers:
  - name: fetch
    image: IMAGE
    command: [sh, -c, "nvidia-smi -L > /data/list; exit 0"]
    resources: {claims: [{name: devices, request: gpu}]}
    volumeMounts: [{name: data, mountPath: /data}]
  - name: server
    image: IMAGE
    restartPolicy: Always
    command: [httpd, -f, -p, "127.0.0.1:8080", -h, /data]
    volumeMounts: [{name: data, mountPath: /data}]
  containers:
  - name: main
    image: IMAGE
    command: [sh, -c, "nvidia-smi -L; nproc; hostname; touch /tmp/ready; sleep 1000"]
    resources: {claims: [{name: devices}], limits: {memory: 64Mi}}
    readinessProbe: {exec: {command: [cat, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 20}
  - name: bystander
    image: IMAGE
    command: [sh, -c, "env | grep -c SIMULATED_GPU; ls /usr/bin; wget -q -O - http://127.0.0.1:8080/list; sleep 1000"]
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: drivers have sockets in it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as made:
        yield Path(made)


@busybox.needs_podman
def test_a_pod_sees_its_devices_and_no_others(run: Dray, folder: Path) -> None:
    (folder / "pod.yaml").write_text(MANIFESTS.replace("IMAGE", busybox.image()))
    config = str(folder / "data/kubeconfig")
    node = ("--kubelet-root", f"{folder}/data/node", "--cdi-dir", f"{folder}/data/node/cdi")
    up = ("up", "--port", "0", "--plain", "--node", "--runtime", "podman", "--data", "data")
    with running(*up, cwd=folder) as process:
        url = next(word for word in " ".join(wait(process)).split() if word.startswith("http://"))
        gpus = ("driver", "simulated-gpu", "--set", "machine=p5.48xlarge", *node, "--kubeconfig", config)
        with running(*gpus, cwd=folder) as driver:
            assert run("apply", "-f", str(folder / "pod.yaml"), "--kubeconfig", config).exit_code == 0
            eventually(lambda: _ready(_pod(url)))
            main, bystander = _log(url, "main"), eventually(lambda: _listed(_log(url, "bystander")))
            assert [each.split(":")[0] for each in main[:2]] == ["GPU 0", "GPU 1"]
            assert all("H100" in each for each in main[:2])
            assert main[2:] == ["1", "trainer"]
            # What the init container saw, served by the sidecar; nothing of its own.
            assert bystander == ["0", *main[:2]]
            assert _pod(url)["status"]["podIP"] != "127.0.0.1"
            _look_in(folder, config)
            # The devices are free again, and nothing is left.
            assert run("delete", "pod", "train", "--kubeconfig", config).exit_code == 0
            assert eventually(lambda: not _containers(folder))
            assert driver.stop(signal.SIGINT)[0] == 0
        assert process.stop(signal.SIGINT)[0] == 0


def _look_in(folder: Path, config: str) -> None:
    if KUBECTL is None:
        return

    def kubectl(*arguments: str) -> tuple[int, str]:
        ran = subprocess.run(
            [KUBECTL, "--kubeconfig", config, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
        return ran.returncode, ran.stdout

    (folder / "file").write_text("copied\n")
    assert kubectl("cp", str(folder / "file"), "train:/tmp/file", "-c", "main") == (0, "")
    assert kubectl("exec", "train", "-c", "main", "--", "sh", "-c", "cat /tmp/file; exit 3") == (3, "copied\n")
    assert kubectl("logs", "train", "-c", "main", "--tail", "1") == (0, "trainer\n")


def _pod(url: str) -> dict[str, Any]:
    with urlopen(f"{url}/api/v1/namespaces/default/pods/train", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True"


def _log(url: str, container: str) -> list[str]:
    with urlopen(f"{url}/api/v1/namespaces/default/pods/train/log?container={container}", timeout=30) as answer:
        return str(answer.read().decode()).splitlines()


def _listed(lines: list[str]) -> list[str]:
    return lines if len(lines) == 3 else []


def _containers(folder: Path) -> list[str]:
    root = os.path.realpath(folder / "data/node/podman")
    listed = ("ps", "--all", "--quiet", "--filter", f"label=io.dray.root={root}")
    return subprocess.run([*busybox.PODMAN, *listed], capture_output=True, text=True, check=True).stdout.split()


def test_without_podman_it_says_what_to_install(run: Dray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in (("up", "--node"), ("node",)):
        result = run(*command, "--runtime", "podman")
        assert result.exit_code == 2
        assert "podman" in result.stderr
        assert "apt-get install podman runc catatonit" in result.stderr
