"""What a node may write, as far as it depends on the content."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from dray.server.security import certificates
from dray.server.security.node_restriction import CREATE, DELETE, UPDATE

from .cluster import Cluster, Object, refused, two_nodes, user

DRA = "resource.k8s.io"


@pytest.fixture
def cluster() -> Cluster:
    return two_nodes()


def node(**changes: Any) -> Object:
    metadata = {"name": "n1", "labels": changes.pop("labels", {})}
    return {"metadata": metadata, "spec": changes}


def test_a_node_changes_itself_only(cluster: Cluster) -> None:
    assert refused(cluster, UPDATE, "", "nodes/status", name="n1", old=node(), new=node()) is None
    other = {"metadata": {"name": "n2"}, "spec": {}}
    assert "n2" in (refused(cluster, UPDATE, "", "nodes/status", name="n2", old=other, new=other) or "")
    assert "n2" in (refused(cluster, CREATE, "", "nodes", new=other) or "")
    generated = {"metadata": {"generateName": "n1"}, "spec": {}}
    assert refused(cluster, CREATE, "", "nodes", name="n1", new=generated)
    assert refused(cluster, CREATE, "", "nodes", name="n1", new=node()) is None


def test_a_node_keeps_its_taints(cluster: Cluster) -> None:
    tainted = node(taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert "taints" in (refused(cluster, UPDATE, "", "nodes", name="n1", old=tainted, new=node()) or "")
    assert refused(cluster, UPDATE, "", "nodes", name="n1", old=tainted, new=tainted) is None


def test_a_node_does_not_choose_an_owner(cluster: Cluster) -> None:
    owned = node()
    owned["metadata"] = {**owned["metadata"], "ownerReferences": [{"kind": "ConfigMap", "name": "c", "uid": "u"}]}
    assert "ownerReferences" in (refused(cluster, UPDATE, "", "nodes", name="n1", old=node(), new=owned) or "")


@pytest.mark.parametrize(
    ("label", "free"),
    [
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/anything", True),
        ("example.com/own", True),
        ("plain", True),
        ("node-role.kubernetes.io/control-plane", False),
        ("node-restriction.kubernetes.io/secure", False),
        ("node.kubernetes.io.node-restriction.kubernetes.io/x", False),
        ("node-restriction.node.kubernetes.io/x", True),
        ("a.node-restriction.kubernetes.io/secure", False),
        ("kubernetes.io/anything", False),
        ("x.k8s.io/y", False),
        ("evilkubernetes.io/x", True),
    ],
)
def test_labels_of_a_node(cluster: Cluster, label: str, free: bool) -> None:
    labelled = node(labels={label: "x"})
    for old, new in ((node(), labelled), (labelled, node()), (labelled, node(labels={label: "y"}))):
        assert (refused(cluster, UPDATE, "", "nodes", name="n1", old=old, new=new) is None) is free
    assert (refused(cluster, CREATE, "", "nodes", new=labelled) is None) is free


def test_the_status_of_its_pods(cluster: Cluster) -> None:
    mine, other = cluster.get("", "pods", "default", "mine"), cluster.get("", "pods", "default", "other")
    assert mine is not None
    running = {**mine, "status": {**mine["status"], "phase": "Running"}}
    assert refused(cluster, UPDATE, "", "pods/status", name="mine", old=mine, new=running) is None
    assert refused(cluster, UPDATE, "", "pods/status", name="other", old=other, new=other)
    for member in ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"):
        stolen = {**mine, "status": {**mine["status"], member: [{"name": "b", "resourceClaimName": "theirs"}]}}
        assert member in (refused(cluster, UPDATE, "", "pods/status", name="mine", old=mine, new=stolen) or "")
    labelled = {**running, "metadata": {**mine["metadata"], "labels": {"app": "x"}}}
    assert "labels" in (refused(cluster, UPDATE, "", "pods/status", name="mine", old=mine, new=labelled) or "")


def test_moving_a_pod_in_its_status_does_not_make_it_its_own(cluster: Cluster) -> None:
    other = cluster.get("", "pods", "default", "other")
    assert other is not None
    moved = {**other, "spec": {**other["spec"], "nodeName": "n1"}}
    assert refused(cluster, UPDATE, "", "pods/status", name="other", old=other, new=moved)


def mirror(**spec: Any) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-1", "controller": True}
    metadata = {
        "name": "static",
        "namespace": "default",
        "annotations": {"kubernetes.io/config.mirror": "1"},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": {"nodeName": "n1", **spec}}


def test_mirror_pods_refer_to_nothing(cluster: Cluster) -> None:
    assert refused(cluster, CREATE, "", "pods", new=mirror()) is None
    for reference in (
        {"nodeName": "n2"},
        {"serviceAccountName": "admin"},
        {"resourceClaims": [{"name": "a", "resourceClaimName": "theirs"}]},
        {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]},
        {"volumes": [{"secret": {"secretName": "s"}}]},
        {"volumes": [{"persistentVolumeClaim": {"claimName": "p"}}]},
        {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        {"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]},
    ):
        assert refused(cluster, CREATE, "", "pods", new=mirror(**reference)), reference
    plain = mirror()
    del plain["metadata"]["annotations"]
    assert "mirror" in (refused(cluster, CREATE, "", "pods", new=plain) or "")
    for owners in ([], [{**mirror()["metadata"]["ownerReferences"][0], "uid": "stale"}]):
        orphan = mirror()
        orphan["metadata"]["ownerReferences"] = owners
        assert "owner" in (refused(cluster, CREATE, "", "pods", new=orphan) or "")


def test_deleting_and_evicting_pods(cluster: Cluster) -> None:
    for name, expected in (("mine", True), ("other", False), ("waiting", False)):
        existing = cluster.get("", "pods", "default", name)
        rest: Any = {"namespace": "default", "name": name}
        assert (refused(cluster, DELETE, "", "pods", old=existing, **rest) is None) is expected
        assert (refused(cluster, CREATE, "", "pods/eviction", new={}, **rest) is None) is expected
    assert refused(cluster, UPDATE, "", "pods", old=mirror(), new=mirror(), name="static")
    assert refused(cluster, CREATE, "", "pods/binding", new={}, name="waiting", namespace="default")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"nodeName": "n1"}, True),
        (None, {"nodeName": "n2"}, False),
        (None, {"allNodes": True}, False),
        (None, {"nodeSelector": {}}, False),
        ({"nodeName": "n1"}, {"nodeName": "n1"}, True),
        ({"nodeName": "n1"}, {"nodeName": "n2"}, False),
        ({"nodeName": "n2"}, {"nodeName": "n1"}, False),
        ({"nodeName": "n1"}, None, True),
        ({"nodeName": "n2"}, None, False),
    ],
)
def test_slices(cluster: Cluster, old: Object | None, new: Object | None, expected: bool) -> None:
    operation = CREATE if old is None else DELETE if new is None else UPDATE
    objects = {"old": old and {"spec": old}, "new": new and {"spec": new}}
    assert (refused(cluster, operation, DRA, "resourceslices", **objects) is None) is expected


@pytest.mark.parametrize(
    ("pool", "expected"), [("n1", True), ("n1/a", True), ("gpus", True), ("n2", False), ("n2/a", False)]
)
def test_a_node_publishes_nothing_in_the_pool_of_another_node(cluster: Cluster, pool: str, expected: bool) -> None:
    for name in ("n1", "n2"):
        cluster.put("", "nodes", {"metadata": {"name": name}})
    own: Object = {"spec": {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": pool}}}
    assert (refused(cluster, CREATE, DRA, "resourceslices", new=own) is None) is expected
    assert (refused(cluster, UPDATE, DRA, "resourceslices", old=own, new=own) is None) is expected
    # It may take back what it published before the other node came.
    assert refused(cluster, DELETE, DRA, "resourceslices", old=own) is None


def test_a_node_tells_how_large_a_volume_is(cluster: Cluster) -> None:
    old = {"metadata": {"name": "data", "resourceVersion": "1"}, "spec": {}, "status": {"phase": "Bound"}}
    rest: Any = {"namespace": "default", "name": "data", "old": old}
    size: Object = {"capacity": {"storage": "2Gi"}, "conditions": [{"type": "FileSystemResizePending"}]}
    grown = {"metadata": {"name": "data", "resourceVersion": "2"}, "spec": {}, "status": {"phase": "Bound", **size}}
    assert refused(cluster, UPDATE, "", "persistentvolumeclaims/status", new=grown, **rest) is None
    labelled = {**grown, "metadata": {**grown["metadata"], "labels": {"a": "b"}}}
    for changed in (labelled, {**grown, "status": {"phase": "Lost"}}, {**grown, "spec": {"volumeName": "v"}}):
        why = refused(cluster, UPDATE, "", "persistentvolumeclaims/status", new=changed, **rest)
        assert "not allowed to update fields" in (why or "")
    assert "PVC status" in (refused(cluster, UPDATE, "", "persistentvolumeclaims", new=grown, **rest) or "")


def test_csi_nodes(cluster: Cluster) -> None:
    for name, expected in (("n1", True), ("n2", False)):
        new = {"metadata": {"name": name}, "spec": {"drivers": []}}
        for operation in (CREATE, UPDATE, DELETE):
            # What a request that creates is called in its path is not yet its name.
            rest: Any = {"name": "n1" if operation == CREATE else name, "new": new, "old": new}
            assert (refused(cluster, operation, "storage.k8s.io", "csinodes", **rest) is None) is expected


@pytest.mark.parametrize(
    ("signer", "name", "why"),
    [
        ("kubelet-serving", "system:node:n1", None),
        ("kube-apiserver-client-kubelet", "system:node:n1", None),
        ("kube-apiserver-client-kubelet", "system:node:n2", "CN=system:node:n1"),
        ("kubelet-serving", "admin", "CN=system:node:n1"),
        ("kube-apiserver-client", "anybody", None),
        ("kubelet-serving", "", "unable to parse csr"),
    ],
)
def test_certificates_of_nodes(cluster: Cluster, signer: str, name: str, why: str | None) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    asked = x509.CertificateSigningRequestBuilder(certificates.subject(name or "x")).sign(key, hashes.SHA256())
    pem = asked.public_bytes(Encoding.PEM) if name else b"odd"
    spec = {"signerName": f"kubernetes.io/{signer}", "request": b64encode(pem).decode()}
    new = {"metadata": {"name": "c"}, "spec": spec}
    found = refused(cluster, CREATE, "certificates.k8s.io", "certificatesigningrequests", new=new)
    assert found is None if why is None else why in (found or "")


def test_leases(cluster: Cluster) -> None:
    for name, namespace, expected in (
        ("n1", "kube-node-lease", True),
        ("n2", "kube-node-lease", False),
        ("n1", "default", False),
    ):
        new = {"metadata": {"name": name}}
        group = "coordination.k8s.io"
        assert (refused(cluster, CREATE, group, "leases", namespace=namespace, new=new) is None) is expected
        rest: Any = {"namespace": namespace, "name": name, "old": new, "new": new}
        assert (refused(cluster, UPDATE, group, "leases", **rest) is None) is expected


def test_others_are_not_restricted(cluster: Cluster) -> None:
    assert refused(cluster, DELETE, "", "nodes", name="n1", who=user("system:node:n1")) is None
    assert "determine" in (refused(cluster, DELETE, "", "nodes", name="n1", who=user("x", "system:nodes")) or "")
