"""Thousands of pods that can never be placed: others are placed as ever, and the memory for them is bounded.

DRAY_PENDING_PODS sets how many there are; `make soak` has 5,000.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.attacks.cluster import LAB, Cluster, retried, started
from tests.attacks.processes import resident, tree
from tests.cli.running import eventually

NUMBER = int(os.environ.get("DRAY_PENDING_PODS", "200"))
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MiB = 1 << 20
# How often pods come and go beside them.
ROUNDS = max(20, NUMBER // 25)
# For each pod that waits, in all processes together; the base has room for what is loaded and cached once.
EACH = 96 << 10
BASE = 96 * MiB


def pod(name: str, number: int) -> Any:
    """A pod that finds no place, for one of several reasons; no two of a reason are alike."""
    metadata: dict[str, Any] = {"name": name}
    spec: dict[str, Any] = {}
    requests = {"cpu": f"{number + 1}m"}
    kind = number % 5
    if kind == 0:
        requests = {"cpu": str(10_000 + number)}
    elif kind == 1:
        spec["nodeSelector"] = {"not": f"there-{number}"}
    elif kind == 2:
        spec["resourceClaims"] = [{"name": "c", "resourceClaimName": f"claim-{number}"}]
    elif kind == 3:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": f"missing-{number}"}
    else:
        metadata["labels"] = {"scheduling.x-k8s.io/pod-group": f"missing-{number}"}
    spec["containers"] = [{"name": "c", "image": "x", "resources": {"requests": requests}}]
    return {"metadata": metadata, "spec": spec}


def claim(number: int) -> Any:
    selector = {"cel": {"expression": f"device.driver == 'nobody-{number}.example.com'"}}
    request = {"name": "r", "exactly": {"deviceClassName": "canary", "count": 1, "selectors": [selector]}}
    return {"metadata": {"name": f"claim-{number}"}, "spec": {"devices": {"requests": [request]}}}


def waiting(cluster: Cluster) -> list[Any]:
    return [pod for pod in cluster.get(PODS)["items"] if not pod["spec"].get("nodeName")]


def reported(cluster: Cluster) -> bool:
    """Whether the scheduler has said of most of them why they wait: it says nothing of groups that do not exist."""
    found = [pod for pod in waiting(cluster) if pod.get("status", {}).get("conditions")]
    return len(found) >= NUMBER * 4 // 5


def stir(cluster: Cluster, rounds: int) -> None:
    """Pods come and go, so that those that wait may be tried again."""
    for number in range(rounds):
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        cluster.create(PODS, {"metadata": {"name": f"stir-{number}"}, "spec": spec})
        time.sleep(0.02)
        cluster.request("DELETE", f"{PODS}/stir-{number}?gracePeriodSeconds=0")


def control_plane(cluster: Cluster) -> int:
    """The resident bytes of the process of the scheduler."""
    return max(resident(pid) for pid in tree(cluster.pid) if pid != cluster.pid)


def test_pods_that_wait_for_ever_hold_up_nobody_and_cost_little(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        with started(folder, LAB) as cluster:
            empty = cluster.memory
            with cluster.undisturbed():
                for number in range(NUMBER):
                    if number % 5 == 2:
                        cluster.create(CLAIMS, claim(number))
                    cluster.create(PODS, pod(f"p-{number}", number))
                eventually(lambda: reported(cluster))
                stir(cluster, ROUNDS)
            assert cluster.memory - empty < BASE + NUMBER * EACH
            settled = control_plane(cluster)
            with cluster.undisturbed():
                stir(cluster, 2 * ROUNDS)
            assert control_plane(cluster) - settled < 32 * MiB
            assert len(waiting(cluster)) >= NUMBER

    retried(tmp_path, attempt)
