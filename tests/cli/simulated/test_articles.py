"""Manifests as articles about DRA have them: in the version they were written for, and as their text says.

`v1beta1.yaml` is applied as it stands. `v1alpha2.yaml` was never served by a cluster that runs today: it is converted
first. What the articles tell to look at afterwards is looked at.
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
    up.apply((HERE / "v1beta1.yaml").read_text())
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
    converted = up.folder / "converted.yaml"
    done = up.dray("convert", str(HERE / "v1alpha2.yaml"))
    converted.write_text(done.stdout)
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
