"""`--opaque-config`: configuration that a driver would refuse is found when a claim is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from .running import running

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
    config:
    - opaque:
        driver: gpu.nvidia.com
        parameters:
          apiVersion: resource.nvidia.com/v1beta1
          kind: GpuConfig
          sharing: {strategy: TimeSlicin}
"""
PROBLEM = (
    "spec.devices.config[0].opaque.parameters.sharing.strategy: {}resource.nvidia.com/v1beta1 GpuConfig: "
    "Invalid enum value 'TimeSlicin'; there are MPS, TimeSlicing"
)


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--opaque-config", "refuse"), 1)])
def test_a_typo_is_told_by_the_server(
    options: tuple[str, ...],
    status: int,
    run: Callable[..., Result],
    write: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with running("apiserver", "--port", "0", "--kubeconfig", str(kubeconfig), *options) as server:
        assert server.line().startswith("Serving")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        result = run("apply", "-f", write(CLAIM))
        assert result.exit_code == status
        prefix = "Forbidden: " if status else ""
        assert PROBLEM.format(prefix) in result.stderr
