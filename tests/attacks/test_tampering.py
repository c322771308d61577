"""Records of kube-system that somebody has changed before a scheduler starts: it works, and says what it left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dray.scheduling_loop.pool_intents import LABEL, record_name
from tests.attacks.cluster import LAB, Cluster, retried, started
from tests.cli.running import Running, eventually
from tests.cli.test_start import kubeconfig

SYSTEM = "/api/v1/namespaces/kube-system/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PODS = "/api/v1/namespaces/default/pods"
MOST = 2**31 - 1
POOL = ("gone.example.com", "pool")
DEEP = "[" * 100_000
LEDGERS: dict[str, Any] = {
    record_name(POOL): {"driver": POOL[0], "pool": POOL[1], "seen": "9" * 18, "intents": DEEP},
    "dray-ledger-cut": {"driver": "a", "pool": "b", "intents": "[{", "seen": "x"},
    "dray-ledger-huge": {"driver": "a", "pool": "b", "intents": json.dumps(["x" * 500_000])},
    "dray-ledger-empty": {},
}


def tamper(cluster: Cluster) -> None:
    for name, data in LEDGERS.items():
        cluster.create(SYSTEM, {"metadata": {"name": name, "labels": {LABEL: "devices"}}, "data": data})
    cluster.create(SYSTEM, {"metadata": {"name": "dray-queue-usage"}, "data": {"usage.json": DEEP}})
    lease = {
        "holderIdentity": "stranger",
        "leaseDurationSeconds": 1,
        "leaseTransitions": MOST,
        "acquireTime": "9999-12-31T23:59:59.999999Z",
        "renewTime": "9999-12-31T23:59:59.999999Z",
    }
    cluster.create(LEASES, {"metadata": {"name": "dray-scheduler"}, "spec": lease})


def is_bound(cluster: Cluster) -> bool:
    return bool(cluster.get(f"{PODS}/mine")["spec"].get("nodeName"))


def test_a_scheduler_starts_whatever_somebody_wrote_into_its_records(tmp_path: Path) -> None:
    def attempt(folder: Path) -> None:
        with started(folder, LAB) as cluster, cluster.undisturbed():
            attack(cluster)

    def attack(cluster: Cluster) -> None:
        tamper(cluster)
        config = kubeconfig(tmp_path / "kubeconfig", cluster.url)
        log = tmp_path / "scheduler.log"
        options = ("--scheduler-name", "mine", "--share-devices", "--queue-usage", "1h,half-life=10m")
        with log.open("w") as written:
            scheduler = Running("scheduler", "--kubeconfig", str(config), *options, log=written)
            try:
                spec = {"schedulerName": "mine", "containers": [{"name": "c", "image": "x"}]}
                cluster.create(PODS, {"metadata": {"name": "mine"}, "spec": spec})
                eventually(lambda: is_bound(cluster))
                assert scheduler.process.poll() is None
            finally:
                status, _ = scheduler.stop()
                scheduler.process.communicate()
        assert status == 0
        said = log.read_text()
        assert "Traceback" not in said
        assert "it is not the record of a pool" in said
        assert f"the record of {POOL[0]}/{POOL[1]}" in said
        assert "what queues had in the past is not known" in said

    retried(tmp_path, attempt)
