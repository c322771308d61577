"""kubectl against `dray up`: Deployments that are made, changed, taken back, restarted, scaled and exposed."""

from __future__ import annotations

import pytest

from tests.cli.running import eventually
from tests.cli.simulated.conftest import KUBECTL, Up

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")
STATUS = ("rollout", "status", "deployment/web", "--timeout=60s")
DONE = 'deployment "web" successfully rolled out'


def said(up: Up, *arguments: str) -> str:
    return up.kubectl(*arguments).stdout


def test_a_deployment_lives(up: Up) -> None:
    said(up, "create", "deployment", "web", "--image=busybox", "--replicas=2", "--", "sleep", "999")
    assert DONE in said(up, *STATUS)
    assert said(up, "get", "deployment", "web", "--no-headers").split()[:4] == ["web", "2/2", "2", "2"]
    assert "NewReplicaSetAvailable" in said(up, "describe", "deployment", "web")

    said(up, "annotate", "deployment/web", "kubernetes.io/change-cause=first")
    said(up, "set", "env", "deployment/web", "COLOUR=blue")
    said(up, "annotate", "--overwrite", "deployment/web", "kubernetes.io/change-cause=blue")
    assert DONE in said(up, *STATUS)
    history = [line.split() for line in said(up, "rollout", "history", "deployment/web").splitlines()[2:] if line]
    assert history == [["1", "first"], ["2", "blue"]]
    assert "COLOUR:\tblue" in said(up, "rollout", "history", "deployment/web", "--revision=2")

    assert "rolled back" in said(up, "rollout", "undo", "deployment/web")
    assert DONE in said(up, *STATUS)
    (container,) = up.named("deployments")["web"]["spec"]["template"]["spec"]["containers"]
    assert "env" not in container
    assert up.named("deployments")["web"]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"

    assert "restarted" in said(up, "rollout", "restart", "deployment/web")
    assert DONE in said(up, *STATUS)
    assert len([each for each in up.items("replicasets") if each["spec"]["replicas"]]) == 1

    assert "scaled" in said(up, "scale", "deployment/web", "--replicas=3")
    assert DONE in said(up, *STATUS)
    said(up, "rollout", "pause", "deployment/web")
    said(up, "set", "env", "deployment/web", "COLOUR=red")
    eventually(lambda: "DeploymentPaused" in said(up, "get", "deployment", "web", "-o", "yaml"))
    said(up, "rollout", "resume", "deployment/web")
    assert DONE in said(up, *STATUS)

    assert "exposed" in said(up, "expose", "deployment", "web", "--port=80")
    assert up.named("services")["web"]["spec"]["selector"] == {"app": "web"}
    said(up, "delete", "deployment,service", "web")
    eventually(lambda: not up.items("replicasets") and not up.items("pods"))
