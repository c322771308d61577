"""Commands that read ResourceSlices answer beside a slice that nobody can read, and name it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.lab import CLASS, claim, gpus, node, pod
from tests.server.process import listening

Dray = Callable[..., Result]

# The API accepts it, as that of Kubernetes does: only a node's label shows that it cannot be compared.
ODD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: odd}
spec:
  driver: gpu.example.com
  pool: {name: odd, generation: 1, resourceSliceCount: 1}
  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: size, operator: Gt, values: [abc]}]}]}
  devices: [{name: gpu-0}]
---
"""
WARNING = (
    "warning: ResourceSlice odd cannot be read and is left out:"
    " spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]: Gt needs exactly one whole number"
)
OBJECTS = CLASS + node("a") + gpus("a", 1) + ODD + claim("c") + pod("p", "resourceClaimName: c")
READING_LIVE = [
    ("explain", "pod/p"),
    ("explain", "claim/c"),
    ("queue",),
    ("defrag", "pod/p"),
    ("devices",),
    ("topology",),
]
NEEDING_NODES = ("explain", "queue", "defrag", "allocate")


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    path = tmp_path / "objects.yaml"
    path.write_text(OBJECTS)
    return str(path)


def test_live_commands_leave_out_a_slice_that_cannot_be_read(run: Dray, tmp_path: Path, manifests: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with listening(kubeconfig=kubeconfig):
        applied = run("apply", "-f", manifests, "--kubeconfig", str(kubeconfig))
        assert applied.exit_code == 0, applied.output
        for command in READING_LIVE:
            result = run(*command, "--kubeconfig", str(kubeconfig))
            assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.output)
            assert (WARNING in result.stderr) == (command[0] in NEEDING_NODES), (command, result.output)


@pytest.mark.parametrize("command", [("allocate",), ("explain", "c"), ("topology",), ("lint",)])
def test_commands_on_files_leave_out_a_slice_that_cannot_be_read(
    run: Dray, manifests: str, command: tuple[str, ...]
) -> None:
    result = run(*command, manifests)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert (WARNING in result.stderr) == (command[0] in NEEDING_NODES), result.output
