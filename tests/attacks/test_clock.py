"""The wall clock of the machine is set forward and back while the cluster works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks.cluster import LAB, Cluster, retried, started
from tests.attacks.test_objects import PODS, pod
from tests.attacks.wall_clock import SetClock
from tests.cli.running import eventually

HOURS = 3600
MERGE = {"Content-Type": "application/merge-patch+json"}
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def waits(cluster: Cluster, name: str) -> None:
    """Creates a pod for nodes that do not exist, and returns when the scheduler has refused it."""
    cluster.create(PODS, pod(name, nodeSelector={"for": name}))
    eventually(lambda: [condition for condition in conditions(cluster, name) if condition["type"] == "PodScheduled"])


def conditions(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(f"{PODS}/{name}")["status"].get("conditions") or []
    return found


def is_good(cluster: Cluster, token: str) -> bool:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return cluster.create(REVIEWS, review)["status"].get("authenticated") is True


def test_a_clock_that_is_set_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SetClock(tmp_path)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)

    def attempt(folder: Path) -> None:
        clock.set(0)
        with started(folder, LAB) as cluster:
            spec = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600},
            }
            token = cluster.create(TOKENS, spec)["status"]["token"]
            assert is_good(cluster, token)
            for number, ahead in enumerate((2 * HOURS, -2 * HOURS)):
                name = f"waits-{number}"
                waits(cluster, name)
                with cluster.undisturbed(1.0):
                    clock.set(ahead)
                    assert not is_good(cluster, token), "its time is over, or has not come"
                    labels = {"metadata": {"labels": {"for": name}}}
                    assert cluster.request("PATCH", "/api/v1/nodes/big", labels, headers=MERGE).status == 200
                    # It backs off for seconds, not for as long as the clock was set.
                    eventually(lambda waiting=name: cluster.get(f"{PODS}/{waiting}")["spec"].get("nodeName"))
            clock.set(0)
            assert is_good(cluster, token)

    retried(tmp_path / "clusters", attempt)
