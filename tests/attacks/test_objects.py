"""Objects that are accepted, and that a scheduler or a controller might fail at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.attacks.cluster import Cluster, withstands
from tests.cli.running import eventually

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def pod(name: str, requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": requests or {}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def a_job_past_its_deadline_whose_pod_is_still_terminating(cluster: Cluster) -> None:
    template = {"spec": {**pod("")["spec"], "restartPolicy": "Never", "nodeName": "nowhere"}}
    job = {"metadata": {"name": "now"}, "spec": {"activeDeadlineSeconds": 1, "template": template}}
    cluster.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **job})
    time.sleep(1.5)


def amounts_beyond_any_number(cluster: Cluster) -> None:
    huge = {"cpu": "1e400"}
    # They may be refused; those that come later are what matters.
    cluster.request("POST", PODS, pod("container", huge, nodeName="big"))
    cluster.request("POST", PODS, pod("overhead", nodeName="cheap", overhead=huge, runtimeClassName="heavy"))
    cluster.request("POST", PODS, pod("pod", nodeName="cut", resources={"requests": huge}))
    cluster.create(PODS, pod("small", {"memory": "1Mi"}))


def tolerations_of_numbers_too_long_to_be_read(cluster: Cluster) -> None:
    tolerations = [{"key": "example.com/load", "operator": "Gt", "value": "9" * 4301, "effect": "NoSchedule"}]
    taints = [{"key": "example.com/load", "value": "5", "effect": "NoSchedule"}]
    node = cluster.get("/api/v1/nodes/cheap")
    node["spec"]["taints"] = taints
    assert cluster.request("PUT", "/api/v1/nodes/cheap", node).status == 200
    cluster.request("POST", PODS, pod("long", tolerations=tolerations))


def slices_whose_node_selector_compares_with_words(cluster: Cluster) -> None:
    terms = [{"matchExpressions": [{"key": "num", "operator": "Gt", "values": ["abc"]}]}]
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "odd", "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {"nodeSelectorTerms": terms},
        "devices": [{"name": "gpu-0"}],
    }
    resource = "resource.k8s.io/v1"
    options = [{"name": "any", "deviceClassName": "gpu"}, {"name": "part", "deviceClassName": "mig"}]
    requests = [{"name": "gpu", "firstAvailable": options}]
    claims = [{"name": "gpu", "resourceClaimName": "first"}]
    slice_ = {"apiVersion": resource, "kind": "ResourceSlice", "metadata": {"name": "odd"}, "spec": spec}
    cluster.request("POST", SLICES, slice_)
    claim = {"metadata": {"name": "first"}, "spec": {"devices": {"requests": requests}}}
    cluster.create(CLAIMS, {"apiVersion": resource, "kind": "ResourceClaim", **claim})
    cluster.create(PODS, pod("first", resourceClaims=claims))


def pods_that_leave_their_isolation_in_a_restricted_namespace(cluster: Cluster) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "held", "labels": labels}
    cluster.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    path, account = "/api/v1/namespaces/held/pods", "/api/v1/namespaces/held/serviceaccounts/default"
    eventually(lambda: cluster.request("GET", account).status == 200)
    volumes = [{"name": "root", "hostPath": {"path": "/"}}]
    escape = pod("escape", hostPID=True, hostNetwork=True, volumes=volumes)
    escape["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    answer = cluster.request("POST", path, escape)
    assert answer.status == 403, answer.body
    assert b'violates PodSecurity \\"restricted:latest\\"' in answer.body
    assert cluster.request("POST", f"{path}?dryRun=All", escape).status == 403
    assert cluster.get(path)["items"] == []


ATTACKS = (
    a_job_past_its_deadline_whose_pod_is_still_terminating,
    amounts_beyond_any_number,
    tolerations_of_numbers_too_long_to_be_read,
    slices_whose_node_selector_compares_with_words,
    pods_that_leave_their_isolation_in_a_restricted_namespace,
)


def test_objects_that_are_accepted_disturb_nobody(tmp_path: Path) -> None:
    """All in one cluster: to start one and to start it again costs more than they do."""

    def attack(cluster: Cluster) -> None:
        for each in ATTACKS:
            each(cluster)

    withstands(tmp_path, attack)
