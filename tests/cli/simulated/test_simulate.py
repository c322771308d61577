"""`dray up --simulate`: pods run as processes and see the simulated devices that they were given, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable

from click.testing import Result

from tests.cli.running import eventually
from tests.cli.simulated.conftest import A100, Up
from tests.cli.test_up_node import log

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


def test_each_pod_sees_its_own_gpus(up: Up) -> None:
    up.apply(MANIFEST + POD % "a" + POD % "b")
    logs = [eventually(lambda name=name: " ".join(log(up.url, name))) for name in "ab"]
    seen = [re.findall(r"UUID: (GPU-[0-9a-f-]+)", each) for each in logs]
    assert [len(each) for each in seen] == [3, 3]
    devices = {
        device["attributes"]["uuid"]["string"]: device["name"]
        for each in up.items("resourceslices")
        for device in each["spec"].get("devices", ())
        if "uuid" in device["attributes"]
    }
    held = {
        frozenset(result["device"] for result in each["status"]["allocation"]["devices"]["results"])
        for each in up.items("resourceclaims")
    }
    assert held == {frozenset(devices[uuid] for uuid in each) for each in seen}
    assert len(frozenset().union(*held)) == 6
    assert up.named("nodes")[A100]["status"]["allocatable"]["cpu"] == "96"


def test_drivers_report_their_devices_in_the_status_of_claims(up: Up) -> None:
    up.start("run", "--class", "netdev.google.com=1", "--name", "nic", "--", "sleep", "999")
    (device,) = eventually(lambda: up.named("resourceclaims").get("nic", {}).get("status", {}).get("devices"))
    assert (device["driver"], device["networkData"]["interfaceName"][:3]) == ("dra.net", "ens")


def test_what_cannot_be_simulated_is_said(run: Callable[..., Result]) -> None:
    refused = run("up", "--simulate", "p4d.24xlarg")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: there is no machine type 'p4d.24xlarg'; did you mean p4d.24xlarge?\n",
    )
    refused = run("up", "--simulate", "cpu-64=17")
    assert refused.exit_code == 2
    assert "at most 16 machines, not 17" in refused.stderr
