"""`dray fleet` and `dray up --fleet` as their users see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from tests.cli.running import eventually
from tests.cli.test_up import get, up, wait

Dray = Callable[..., Result]
HEAD = "apiVersion: fleet.dray.dev/v1alpha1\nkind: "
OWN = (
    f'{HEAD}MachineType\nname: box\ncpus: 8\nmemory: 32Gi\ngpus:\n- model: l4\n  slots: [{{address: "0000:3b:00.0"}}]\n'
)
POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {simulated.dray.dev/start-seconds: "0", simulated.dray.dev/run-seconds: "SECONDS"}}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers: [{name: main, image: busybox, resources: {claims: [{name: gpu}]}}]
"""


def pod(name: str, seconds: float) -> str:
    return POD.replace("NAME", name).replace("SECONDS", str(seconds))


def test_machine_types_are_listed(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(OWN)
    lines = run("fleet", "list", "-f", str(tmp_path / "box.yaml")).stdout.splitlines()
    assert lines[0].split()[:4] == ["NAME", "CPUS", "MEMORY", "GPUS"]
    names = [line.split()[0] for line in lines[1:]]
    assert {"p5.48xlarge", "ct5lp-hightpu-4t", "gb200-nvl72-tray", "cpu-64", "box"} <= set(names)
    listed = json.loads(run("fleet", "list", "--output", "json").stdout)
    assert next(each for each in listed if each["name"] == "p5.48xlarge")["cpus"] == 192


def test_a_machine_type_is_shown_with_its_devices(run: Dray) -> None:
    shown = run("fleet", "show", "a3-highgpu-1g:mig").stdout
    assert "gpu-0-mig-3g40gb-9-4" in shown
    assert json.loads(run("fleet", "show", "p5.48xlarge", "-o", "json").stdout)["gpus"][0]["model"] == "h100-80gb-hbm3"
    refused = run("fleet", "show", "p5.48xlarg")
    assert refused.exit_code == 2
    assert "did you mean p5.48xlarge?" in refused.stderr


def test_what_is_shown_can_be_read_again(run: Dray, tmp_path: Path) -> None:
    for name in ("p5.48xlarge", "ct6e-standard-4t", "gb200-nvl72-tray"):
        file = tmp_path / "copy.yaml"
        file.write_text(run("fleet", "show", name, "-o", "yaml").stdout)
        assert run("fleet", "show", name, "-f", str(file)).stdout == run("fleet", "show", name).stdout


def test_templates_for_autoscalers_are_yaml_and_name_what_is_left_out(run: Dray) -> None:
    slices = list(yaml.safe_load_all(run("fleet", "show", "p5.48xlarge", "-o", "slices").stdout))
    assert {each["kind"] for each in slices} == {"ResourceSlice"}
    (node,) = yaml.safe_load_all(run("fleet", "show", "p5.48xlarge", "-o", "nodes").stdout)
    assert node["status"]["allocatable"]["cpu"] == "192"
    kinds = [each["kind"] for each in yaml.safe_load_all(run("fleet", "show", "p5.48xlarge", "-o", "karpenter").stdout)]
    assert kinds == ["NodePool", "DRAConfig", "DRAConfig", "DRAConfig"]
    patch = run("fleet", "show", "p5.48xlarge", "-o", "capi")
    assert list(yaml.safe_load(patch.stdout)) == ["metadata"]
    assert "left out: 32 devices of dra.net: annotations describe whole GPUs of one driver only" in patch.stderr


def test_a_wrong_file_is_named_with_line_and_fix(run: Dray, tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(OWN.replace("l4", "l44"))
    for command in (("fleet", "list", "-f"), ("up", "--port", "0", "--fleet")):
        result = run(*command, str(tmp_path / "box.yaml"))
        assert result.exit_code == 2
        assert "box.yaml:7:3: gpus[0].model: there is no GpuModel 'l44'; there are" in result.stderr


def test_pods_live_on_a_fleet_across_a_restart_and_it_can_be_imported(run: Dray, tmp_path: Path) -> None:
    config = tmp_path / "data/kubeconfig"
    (tmp_path / "box.yaml").write_text(OWN)
    (tmp_path / "pods.yaml").write_text(pod("short", 1) + "---\n" + pod("long", 3600))

    def phase(name: str) -> str:
        found = get(run, config, "pod", name)
        return str((found or {}).get("status", {}).get("phase", ""))

    def started() -> Any:
        return get(run, config, "pod", "long")["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]

    arguments = ("--data", "data", "--fleet", "box.yaml", "--fleet", "box=3")
    with up(tmp_path, "pods.yaml", *arguments) as process:
        assert "fleet: nodes 3, resourceslices 6, deviceclasses 3" in wait(process)[0]
        assert eventually(lambda: phase("short") == "Succeeded")
        assert eventually(lambda: phase("long") == "Running")
        began = started()
        assert process.stop()[0] == 0
    with up(tmp_path, *arguments) as process:
        wait(process)
        imported = run("fleet", "import", "--kubeconfig", str(config), "-o", str(tmp_path / "again.yaml"))
        assert "1 machine types, 3 nodes" in imported.stderr
        assert (phase("long"), started()) == ("Running", began)
        assert run("delete", "pod", "long", "--kubeconfig", str(config)).exit_code == 0
        assert eventually(lambda: get(run, config, "pod", "long") is None)
        assert process.stop()[0] == 0
    shown = run("fleet", "show", "imported", "-f", str(tmp_path / "again.yaml"))
    assert shown.exit_code == 2
    assert "NVIDIA L4" in run("fleet", "show", "box", "-f", str(tmp_path / "again.yaml")).stdout
