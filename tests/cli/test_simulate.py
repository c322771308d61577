"""`dray up --simulate`: pods run as processes and see the simulated devices that they were given, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from tests.cli.running import eventually, running
from tests.cli.test_up import wait
from tests.cli.test_up_node import log

Dray = Callable[..., Result]
MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 3}}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  nodeSelector: {node.kubernetes.io/instance-type: p4d.24xlarge}
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
  containers:
  - name: main
    image: trainer
    command: [sh, -c, nvidia-smi -L; sleep 999]
    resources: {claims: [{name: gpus}], requests: {cpu: "40"}}
"""


def items(run: Dray, config: Path, kinds: str) -> list[Any]:
    found = run("get", kinds, "-o", "json", "--kubeconfig", str(config))
    assert found.exit_code == 0, found.output
    return list(json.loads(found.stdout)["items"])


def test_each_pod_sees_its_own_gpus(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(MANIFEST + POD % "a" + POD % "b")
    config = tmp_path / "kubeconfig"
    arguments = ("up", "pods.yaml", "--simulate", "p4d.24xlarge", "--port", "0", "--plain", "--kubeconfig", str(config))
    with running(*arguments, cwd=tmp_path) as process:
        url = next(word for word in " ".join(wait(process)).split() if word.startswith("http://"))
        logs = [eventually(lambda name=name: " ".join(log(url, name))) for name in "ab"]
        seen = [re.findall(r"UUID: (GPU-[0-9a-f-]+)", each) for each in logs]
        assert [len(each) for each in seen] == [3, 3]
        devices = {
            device["attributes"]["uuid"]["string"]: device["name"]
            for each in items(run, config, "resourceslices")
            for device in each["spec"].get("devices", ())
            if "uuid" in device["attributes"]
        }
        held = {
            frozenset(result["device"] for result in each["status"]["allocation"]["devices"]["results"])
            for each in items(run, config, "resourceclaims")
        }
        assert held == {frozenset(devices[uuid] for uuid in each) for each in seen}
        assert len(frozenset().union(*held)) == 6
        (node,) = items(run, config, "nodes")
        assert node["status"]["allocatable"]["cpu"] == "96"


def test_what_cannot_be_simulated_is_said(run: Dray, tmp_path: Path) -> None:
    refused = run("up", "--simulate", "p4d.24xlarg")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: there is no machine type 'p4d.24xlarg'; did you mean p4d.24xlarge?\n",
    )
    refused = run("up", "--simulate", "cpu-64=17")
    assert refused.exit_code == 2
    assert "at most 16 machines, not 17" in refused.stderr
