"""docs/gpu-box.md: its manifests run on a box whose GPUs a library stands in for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.node.runtimes.device_files import can_hide
from tests.cli.running import eventually, running
from tests.cli.test_up import wait
from tests.drivers.gpu.conftest import nvml_library
from tests.drivers.gpu.machines import GpuMachine, gpus_of

__all__ = ["nvml_library"]
Dray = Callable[..., Result]
PAGE = (Path(__file__).parents[2] / "docs/gpu-box.md").read_text()
MANIFESTS = dict(re.findall(r"^### ([^\n]+)\n.*?^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_page_has_a_manifest_for_each_way_to_share_and_lint_finds_nothing(run: Dray, tmp_path: Path) -> None:
    assert list(MANIFESTS) == ["Time slicing", "MPS", "Shares of the memory", "MIG"]
    for title, text in MANIFESTS.items():
        (tmp_path / "m.yaml").write_text(text)
        result = run("lint", "--ignore", "missing-class", str(tmp_path / "m.yaml"))
        assert result.exit_code == 0, f"{title}: {result.output}"


@pytest.mark.skipif(os.geteuid() != 0 or not can_hide(), reason="modes of GPUs are changed by root")
@pytest.mark.parametrize(
    ("titles", "machine_type", "settings", "count"),
    [
        (("Time slicing", "MPS"), "g6.48xlarge", {}, 3),
        (("Shares of the memory",), "g6.48xlarge", {"ConsumableShares": "memory"}, 1),
        (("MIG",), "p5.48xlarge", {"DynamicMIG": "true"}, 1),
    ],
)
def test_pods_of_the_page_run(
    run: Dray,
    nvml_library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    titles: tuple[str, ...],
    machine_type: str,
    settings: dict[str, str],
    count: int,
) -> None:
    machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of(machine_type, 2))
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    text = "---\n".join(MANIFESTS[title] for title in titles)
    # What is ended at once need not be waited for.
    (tmp_path / "m.yaml").write_text(
        text.replace("spec:\n  resource", "spec:\n  terminationGracePeriodSeconds: 0\n  resource")
    )
    option = ",".join(f"{key}={value}" for key, value in machine.settings(**settings).items())
    config = str(tmp_path / "dray.kubeconfig")
    with running("up", "m.yaml", "--port", "0", "--node", "--driver", f"gpu:{option}", cwd=tmp_path) as up:
        wait(up)

        def phases() -> list[str]:
            found = run("get", "pods", "-o", "json", "--kubeconfig", config)
            items: list[dict[str, Any]] = json.loads(found.stdout)["items"] if found.exit_code == 0 else []
            return [pod["status"].get("phase", "") for pod in items]

        assert eventually(lambda: phases() == ["Running"] * count)
        calls = machine.calls()
        if "MPS" in titles:
            assert any(call.startswith("nvidia-cuda-mps-control -d") for call in calls), calls
            assert any("--set-timeslice 3" in call for call in calls), calls
        if "MIG" in titles:
            assert machine.instances(0) or machine.instances(1)
        # Daemons and partitions of claims go with their pods.
        assert run("delete", "-f", str(tmp_path / "m.yaml"), "--kubeconfig", config).exit_code == 0
        assert eventually(lambda: phases() == [])
        assert not machine.instances(0)
        assert not machine.instances(1)
        up.stop()
