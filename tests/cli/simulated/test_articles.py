"""Manifests and commands of two articles about DRA as they are written, each run as a process.

`v1beta1.yaml` is applied as it stands. `v1alpha2.yaml` was never served by a cluster that runs today: the server says
how to convert it. `podgroup.yaml` has the gang of the second article, whose eight pods are not shown there. The driver
that the article installs by helm is part of `dray up --simulate`. What the article tells to verify is verified.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.drivers.devices.classes import device_classes
from tests.cli.running import eventually
from tests.cli.simulated.conftest import A100, KUBECTL, Up

HERE = Path(__file__).parent / "articles"


def phase(up: Up, pod: str) -> str:
    return str(up.named("pods").get(pod, {}).get("status", {}).get("phase"))


def test_v1beta1_as_written(up: Up) -> None:
    up.command("apply", "-f", str(HERE / "v1beta1.yaml"))
    eventually(lambda: phase(up, "stock-prediction-pod") == "Running")
    assert up.named("pods")["stock-prediction-pod"]["spec"]["nodeName"] == "large-gpus-0"
    (claim,) = up.items("resourceclaims")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["device"]) == ("gpu-driver.example.com", "large-gpus-0", "gpu-1")


@pytest.fixture
def own_class(up: Up) -> Iterator[None]:
    """The article has a class of the name that the driver's installation makes; that one comes back."""
    yield
    up.dray("delete", "deviceclass", "gpu.nvidia.com")
    (made,) = [each for each in device_classes(["gpu.nvidia.com"]) if each["metadata"]["name"] == "gpu.nvidia.com"]
    up.apply(json.dumps(made))


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")
@pytest.mark.usefixtures("own_class")
def test_v1alpha2_after_conversion_and_what_to_verify(up: Up) -> None:
    refused = up.kubectl("apply", "-f", str(HERE / "v1alpha2.yaml"), check=False)
    assert refused.returncode != 0
    assert "`dray convert FILE` rewrites the manifest" in refused.stderr
    up.kubectl("delete", "pod", "training-job", "--ignore-not-found", "--now")
    converted = up.folder / "converted.yaml"
    converted.write_text(up.command("convert", str(HERE / "v1alpha2.yaml")))
    up.kubectl("apply", "-f", str(converted))
    eventually(lambda: phase(up, "training-job") == "Running")
    pod = up.named("pods")["training-job"]
    assert pod["spec"]["nodeName"] == A100
    assert pod["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "p4d.24xlarge"}

    slices = up.kubectl("get", "resourceslices", "-n", "default").stdout.splitlines()
    assert slices[0].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert any(line.split()[1:4] == [A100, "gpu.nvidia.com", A100] for line in slices[1:])
    claims = up.kubectl("get", "resourceclaims").stdout.splitlines()
    assert [line.split()[:2] for line in claims] == [["NAME", "STATE"], ["training-gpus", "allocated,reserved"]]
    shown = up.kubectl("exec", "training-job", "--", "nvidia-smi").stdout.splitlines()
    assert shown[0].startswith("NVIDIA-SMI")
    assert len([line for line in shown if "NVIDIA A100-SXM4-40GB" in line]) == 4
    # What stands for the name of a node was lost in the article.
    logs = up.kubectl("logs", "-n", "kube-system", f"kube-scheduler-{socket.gethostname().lower()}").stdout.splitlines()
    (decision,) = [line for line in logs if "DRA" in line and "training-gpus" in line]
    assert f"Pod default/training-job bound to {A100}; DRA claim default/training-gpus: gpu.nvidia.com/" in decision


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")
def test_the_pods_of_the_gang_start_together(up: Up) -> None:
    def worker(number: int) -> str:
        labels = "{scheduling.x-k8s.io/pod-group: distributed-training}"
        command = '[sleep, "999"]'
        return f"""
apiVersion: v1
kind: Pod
metadata: {{name: worker-{number}, labels: {labels}}}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {{kubernetes.io/hostname: {A100}}}
  containers: [{{name: c, image: busybox, command: {command}}}]
---
"""

    up.kubectl("apply", "-f", str(HERE / "podgroup.yaml"))
    up.apply("".join(map(worker, range(7))))
    # Seven of eight wait.
    eventually(lambda: "7 of the 8 pods that have to start together" in up.dray("explain", "pod/worker-0").output)
    assert {phase(up, f"worker-{number}") for number in range(7)} == {"Pending"}
    up.apply(worker(7))
    eventually(lambda: {phase(up, f"worker-{number}") for number in range(8)} == {"Running"})
    shown = up.kubectl("get", "podgroups.scheduling.x-k8s.io", "distributed-training").stdout
    assert "distributed-training" in shown
    up.kubectl("delete", "-f", str(HERE / "podgroup.yaml"))
