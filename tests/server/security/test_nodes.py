"""What a node may do: the authorizer and the restriction of its writes."""

from __future__ import annotations

from typing import Any

import pytest

from dray.server.authorization import Access, User
from dray.server.security.composition import Security
from dray.server.security.node_restriction import CREATE, DELETE, UPDATE, Write, restrict

from .cluster import Cluster, Object, node_user, pod, user

DRA = "resource.k8s.io"
N1 = node_user("n1")


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes with a pod each, and what the pods refer to."""
    cluster = Cluster()
    cluster.put("", "nodes", {"metadata": {"name": "n1", "uid": "node-1"}})
    mine = pod(
        "mine",
        "n1",
        serviceAccountName="runner",
        resourceClaims=[{"name": "a", "resourceClaimName": "named"}, {"name": "b", "resourceClaimTemplateName": "t"}],
        imagePullSecrets=[{"name": "pull"}],
        volumes=[
            {"name": "v", "secret": {"secretName": "volume"}},
            {"name": "c", "configMap": {"name": "settings"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}},
        ],
        containers=[{"name": "x", "envFrom": [{"secretRef": {"name": "env"}}]}],
        initContainers=[{"name": "i", "env": [{"valueFrom": {"secretKeyRef": {"name": "init"}}}]}],
    )
    mine["status"] = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "generated"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
    cluster.put("", "pods", mine)
    other = pod("other", "n2", resourceClaims=[{"name": "a", "resourceClaimName": "theirs"}])
    cluster.put("", "pods", other)
    cluster.put("", "pods", pod("waiting"))
    cluster.put(DRA, "resourceslices", {"metadata": {"name": "s1"}, "spec": {"nodeName": "n1"}})
    cluster.put(DRA, "resourceslices", {"metadata": {"name": "s2"}, "spec": {"nodeName": "n2"}})
    cluster.put(DRA, "resourceslices", {"metadata": {"name": "s0"}, "spec": {"allNodes": True}})
    return cluster


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
    assert not may(security, "get", "", "serviceaccounts", "runner", namespace="default")
    assert may(security, "create", "", "events", namespace="default")
    assert not may(security, "get", DRA, "deviceclasses", "x")


@pytest.mark.parametrize(
    "who",
    [user("system:node:n1"), user("n1", "system:nodes"), user("system:node:", "system:nodes"), user("system:nodes")],
)
def test_half_a_node_is_none(security: Security, who: User) -> None:
    assert not may(security, "get", "", "nodes", "n1", who=who)
    assert not may(security, "create", "", "events", who=who, namespace="default")


def refused(cluster: Cluster, operation: str, group: str, what: str, *, who: User = N1, **rest: Any) -> str | None:
    resource, _, subresource = what.partition("/")
    fields = {"namespace": "", "name": "", **rest}
    return restrict(who, Write(operation, group, resource, subresource, **fields), cluster)


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


def test_tokens_are_for_its_pods(cluster: Cluster) -> None:
    mine = cluster.get("", "pods", "default", "mine")
    assert mine is not None
    uid = mine["metadata"]["uid"]
    good = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": uid}
    references: list[tuple[Object | None, bool]] = [
        (good, True),
        (None, False),
        ({**good, "uid": ""}, False),
        ({**good, "uid": "stale"}, False),
        ({**good, "name": "other", "uid": "uid-of-pods-other"}, False),
        ({**good, "kind": "Node"}, False),
    ]
    for reference, expected in references:
        new = {"spec": {"boundObjectRef": reference}}
        found = refused(cluster, CREATE, "", "serviceaccounts/token", namespace="default", name="runner", new=new)
        assert (found is None) is expected, reference


@pytest.mark.parametrize(
    ("audiences", "why"),
    [([], None), (["vault"], None), (["bank"], '"bank" not found'), (["vault", "bank"], "0 or 1 audiences")],
)
def test_tokens_are_for_audiences_that_the_pod_names(cluster: Cluster, audiences: list[str], why: str | None) -> None:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": "uid-of-pods-mine"}
    new = {"spec": {"boundObjectRef": bound, "audiences": audiences}}
    found = refused(cluster, CREATE, "", "serviceaccounts/token", namespace="default", name="runner", new=new)
    assert found is None if why is None else why in (found or "")


def test_tokens_of_drivers_are_bound_to_the_node(cluster: Cluster) -> None:
    good = {"kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "node-1"}
    changed: list[Object] = [{}, {"name": "n2"}, {"uid": "stale"}, {"uid": ""}, {"kind": "Pod"}]
    for change in changed:
        new = {"spec": {"boundObjectRef": {**good, **change}}}
        place: Any = {"namespace": "kube-system", "name": "device-driver", "new": new}
        found = refused(cluster, CREATE, "", "serviceaccounts/token", **place)
        assert (found is None) is (not change), change
        place["name"] = "namespace-controller"
        assert refused(cluster, CREATE, "", "serviceaccounts/token", **place)


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
