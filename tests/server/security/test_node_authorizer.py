"""What a node may do, as far as the request tells."""

from __future__ import annotations

from typing import Any

import pytest

from dray.server.authorization import Access, User
from dray.server.security.composition import Security

from .cluster import Cluster, node_user, pod, secret, two_nodes, user

DRA = "resource.k8s.io"
N1 = node_user("n1")


@pytest.fixture
def cluster() -> Cluster:
    return two_nodes()


def may(security: Security, verb: str, group: str, what: str, name: str = "", who: User = N1, **rest: Any) -> bool:
    resource, _, subresource = what.partition("/")
    return security.authorizer.authorize(who, Access(verb, group, resource, subresource, name=name, **rest)).allowed


@pytest.mark.parametrize(
    ("name", "expected"),
    [("named", True), ("generated", True), ("extended", True), ("theirs", False), ("absent", False), ("", False)],
)
def test_claims_of_its_pods(security: Security, name: str, expected: bool) -> None:
    assert may(security, "get", DRA, "resourceclaims", name, namespace="default") is expected
    assert not may(security, "get", DRA, "resourceclaims", name, namespace="other")
    for verb in ("list", "watch", "update", "patch", "delete"):
        assert not may(security, verb, DRA, "resourceclaims", name, namespace="default")
    assert not may(security, "update", DRA, "resourceclaims/status", name, namespace="default")


@pytest.mark.parametrize("name", ["pull", "volume", "projected", "env", "init"])
def test_secrets_of_its_pods(security: Security, name: str) -> None:
    assert may(security, "get", "", "secrets", name, namespace="default")
    assert not may(security, "get", "", "secrets", name, namespace="kube-system")
    assert not may(security, "get", "", "secrets", name, namespace="default", who=node_user("n2"))
    assert not may(security, "update", "", "secrets", name, namespace="default")


def test_secrets_and_config_maps_otherwise(security: Security) -> None:
    assert not may(security, "get", "", "secrets", "unrelated", namespace="default")
    assert not may(security, "list", "", "secrets", namespace="default")
    assert not may(security, "list", "", "secrets")
    assert may(security, "get", "", "configmaps", "settings", namespace="default")
    assert not may(security, "get", "", "configmaps", "other", namespace="default")


def test_one_secret_or_config_map_is_watched_by_its_name(security: Security) -> None:
    for verb in ("list", "watch"):
        for resource, name in (("secrets", "volume"), ("configmaps", "settings")):
            selector = f"metadata.name={name}"
            assert may(security, verb, "", resource, namespace="default", field_selector=selector)
            assert not may(security, verb, "", resource, namespace="other", field_selector=selector)
            assert not may(security, verb, "", resource, field_selector=selector)
            for other in ("metadata.name=unrelated", f"metadata.name!={name}", "type=Opaque"):
                assert not may(security, verb, "", resource, namespace="default", field_selector=other)


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        ("stage", "storage", True),
        ("ceph", "default", True),
        ("stage", "default", False),
        ("ceph", "storage", False),
        ("azure", "default", False),
    ],
)
def test_secrets_of_its_volumes(security: Security, name: str, namespace: str, expected: bool) -> None:
    assert may(security, "get", "", "secrets", name, namespace=namespace) is expected
    assert not may(security, "update", "", "secrets", name, namespace=namespace)
    assert not may(security, "get", "", "secrets", name, namespace=namespace, who=node_user("n2"))


def test_a_volume_that_is_not_bound_both_ways_opens_no_secret(cluster: Cluster, security: Security) -> None:
    stray = {"metadata": {"name": "pv-data"}, "spec": {"claimRef": {"namespace": "default", "name": "theirs"}}}
    stray["spec"]["csi"] = {"nodeStageSecretRef": secret("stage", "storage")}
    cluster.put("", "persistentvolumes", stray)
    assert not may(security, "get", "", "secrets", "stage", namespace="storage")


def test_its_volumes(security: Security) -> None:
    for claim, expected in (("data", True), ("mine-e", True), ("theirs", False), ("absent", False)):
        assert may(security, "get", "", "persistentvolumeclaims", claim, namespace="default") is expected
        assert may(security, "get", "", "persistentvolumes", f"pv-{claim}") is expected
        for verb in ("update", "patch"):
            assert may(security, verb, "", "persistentvolumeclaims/status", claim, namespace="default") is expected
            assert not may(security, verb, "", "persistentvolumeclaims", claim, namespace="default")
            assert not may(security, verb, "", "persistentvolumes", f"pv-{claim}")
    for name, expected in (("a1", True), ("a2", False), ("absent", False), ("", False)):
        assert may(security, "get", "storage.k8s.io", "volumeattachments", name) is expected
        assert not may(security, "list", "storage.k8s.io", "volumeattachments", name)
        assert not may(security, "patch", "storage.k8s.io", "volumeattachments/status", name)


def test_its_csi_node(security: Security) -> None:
    for verb in ("get", "update", "patch", "delete"):
        assert may(security, verb, "storage.k8s.io", "csinodes", "n1")
        assert not may(security, verb, "storage.k8s.io", "csinodes", "n2")
    assert may(security, "create", "storage.k8s.io", "csinodes")
    assert may(security, "patch", "storage.k8s.io", "csinodes/status", "n1")
    assert not may(security, "patch", "storage.k8s.io", "csinodes/status", "n2")
    assert not may(security, "create", "storage.k8s.io", "csinodes/status", "n1")
    assert not may(security, "list", "storage.k8s.io", "csinodes")


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("", "services"),
        ("storage.k8s.io", "csidrivers"),
        ("node.k8s.io", "runtimeclasses"),
        ("certificates.k8s.io", "clustertrustbundles"),
        ("certificates.k8s.io", "certificatesigningrequests"),
    ],
)
def test_what_all_nodes_read(security: Security, group: str, resource: str) -> None:
    for verb in ("get", "list", "watch"):
        assert may(security, verb, group, resource, "x" if verb == "get" else "")
    for verb in ("update", "patch", "delete"):
        assert not may(security, verb, group, resource, "x")


def test_mirror_pods_open_nothing(cluster: Cluster, security: Security) -> None:
    made = pod("static", "n1", serviceAccountName="admin", volumes=[{"secret": {"secretName": "s"}}])
    cluster.put("", "pods", made)
    assert may(security, "get", "", "secrets", "s", namespace="default")
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "1"}
    assert not may(security, "get", "", "secrets", "s", namespace="default")
    assert not may(security, "create", "", "serviceaccounts/token", "admin", namespace="default")
    assert may(security, "get", "", "pods", "static", namespace="default")


def test_its_own_node(security: Security) -> None:
    assert may(security, "get", "", "nodes", "n1")
    assert may(security, "list", "", "nodes", field_selector="metadata.name=n1")
    assert may(security, "patch", "", "nodes/status", "n1")
    assert not may(security, "get", "", "nodes", "n2")
    assert not may(security, "list", "", "nodes")
    assert not may(security, "list", "", "nodes", field_selector="metadata.name!=n1")
    assert not may(security, "delete", "", "nodes", "n1")
    assert not may(security, "get", "", "nodes/proxy", "n1")


def test_its_pods(security: Security) -> None:
    assert may(security, "get", "", "pods", "mine", namespace="default")
    assert not may(security, "get", "", "pods", "other", namespace="default")
    assert not may(security, "get", "", "pods", "waiting", namespace="default")
    assert may(security, "list", "", "pods", field_selector="spec.nodeName=n1")
    assert may(security, "watch", "", "pods", field_selector="spec.nodeName==n1,status.phase!=Failed")
    assert not may(security, "patch", "", "pods", "mine", namespace="default")
    assert not may(security, "create", "", "pods/exec", "mine", namespace="default")
    assert not may(security, "create", "", "pods/binding", "mine", namespace="default")
    assert may(security, "patch", "", "pods/status", "mine", namespace="default")


@pytest.mark.parametrize(
    "selector",
    ["", "spec.nodeName=n2", "spec.nodeName!=n1", "spec.nodeName=", "status.phase=n1", r"spec.nodeName=n1\,x"],
)
@pytest.mark.parametrize(("group", "resource"), [("", "pods"), (DRA, "resourceslices")])
def test_lists_must_be_narrowed_down(security: Security, group: str, resource: str, selector: str) -> None:
    assert not may(security, "list", group, resource, field_selector=selector)
    assert may(security, "list", group, resource, field_selector="spec.nodeName=n1")


@pytest.mark.parametrize(
    ("group", "resource", "name"), [("", "pods", "other"), (DRA, "resourceslices", "s2"), ("", "nodes", "n2")]
)
def test_a_selector_does_not_open_a_named_object(security: Security, group: str, resource: str, name: str) -> None:
    for verb in ("get", "watch", "list"):
        selector = "spec.nodeName=n1,metadata.name=n1"
        assert not may(security, verb, group, resource, name, namespace="default", field_selector=selector)


def test_its_slices(security: Security) -> None:
    for verb in ("get", "update", "patch", "delete"):
        assert may(security, verb, DRA, "resourceslices", "s1")
        for name in ("s2", "s0", "absent"):
            assert not may(security, verb, DRA, "resourceslices", name)
    assert may(security, "deletecollection", DRA, "resourceslices", field_selector="spec.nodeName=n1")
    assert not may(security, "deletecollection", DRA, "resourceslices")


def test_its_lease_tokens_and_events(security: Security) -> None:
    assert may(security, "update", "coordination.k8s.io", "leases", "n1", namespace="kube-node-lease")
    assert not may(security, "update", "coordination.k8s.io", "leases", "n2", namespace="kube-node-lease")
    assert not may(security, "update", "coordination.k8s.io", "leases", "n1", namespace="kube-system")
    assert may(security, "create", "", "serviceaccounts/token", "runner", namespace="default")
    assert not may(security, "create", "", "serviceaccounts/token", "admin", namespace="default")
    assert may(security, "get", "", "serviceaccounts", "runner", namespace="default")
    for name, namespace in (("admin", "default"), ("runner", "other"), ("", "default")):
        assert not may(security, "get", "", "serviceaccounts", name, namespace=namespace)
    for verb in ("list", "watch", "update"):
        assert not may(security, verb, "", "serviceaccounts", "runner", namespace="default")
    assert may(security, "create", "", "events", namespace="default")
    assert not may(security, "get", DRA, "deviceclasses", "x")


@pytest.mark.parametrize(
    "who",
    [user("system:node:n1"), user("n1", "system:nodes"), user("system:node:", "system:nodes"), user("system:nodes")],
)
def test_half_a_node_is_none(security: Security, who: User) -> None:
    assert not may(security, "get", "", "nodes", "n1", who=who)
    assert not may(security, "create", "", "events", who=who, namespace="default")
