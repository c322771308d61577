"""The API answers whatever becomes of scheduler and controllers, and they come back by themselves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from dray.process.identity import started_at
from tests.attacks.cluster import LAB, READYZ, Cluster, started
from tests.attacks.observer import Canary
from tests.attacks.processes import tree
from tests.cli.running import eventually

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x"}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def control_plane(cluster: Cluster) -> int:
    (child,) = [each for each in tree(cluster.pid) if each != cluster.pid]
    return child


def longest_answer(cluster: Cluster, seconds: float) -> float:
    longest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        assert cluster.request("GET", PODS).status == 200
        longest = max(longest, time.monotonic() - began)
    return longest


def bound(cluster: Cluster, name: str) -> bool:
    return bool(cluster.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def test_the_control_plane_that_is_killed_comes_back(tmp_path: Path) -> None:
    with started(tmp_path, LAB) as cluster:
        assert "[+]scheduler ok" in cluster.request("GET", "/readyz?verbose").body.decode()
        first = control_plane(cluster)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: cluster.request("GET", "/readyz").status == 500)
        assert "[-]control-plane failed: ended with status -9" in cluster.request("GET", "/readyz").body.decode()
        cluster.create(PODS, pod("meanwhile"))
        assert longest_answer(cluster, 0.3) < READYZ
        eventually(lambda: cluster.request("GET", "/readyz").status == 200)
        eventually(lambda: bound(cluster, "meanwhile"))
        assert control_plane(cluster) != first
        assert cluster.log.count("the control plane ended with status -9 and is started again") == 1


def test_the_api_answers_while_the_control_plane_does_not(tmp_path: Path) -> None:
    with started(tmp_path, LAB) as cluster:
        os.kill(control_plane(cluster), signal.SIGSTOP)
        cluster.create(PODS, pod("later"))
        assert longest_answer(cluster, 1.0) < READYZ
        assert not bound(cluster, "later")
        os.kill(control_plane(cluster), signal.SIGCONT)
        eventually(lambda: bound(cluster, "later"))
        canary = Canary(cluster.url, cluster.pid)
        time.sleep(0.5)
        assert not canary.stop().failures


def test_all_parts_end_with_the_server_although_they_are_stopped(tmp_path: Path) -> None:
    """Stopped processes cannot notice the end of the server, and must not meet the next cluster."""
    with started(tmp_path, LAB, arguments=("--node",)) as cluster:
        eventually(lambda: len(tree(cluster.pid)) == 3)
        _, *children = tree(cluster.pid)
        for child in children:
            os.kill(child, signal.SIGSTOP)
        os.kill(cluster.pid, signal.SIGKILL)
        eventually(lambda: not [child for child in children if started_at(child)])
