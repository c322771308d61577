"""Tokens that a node asks for."""

from __future__ import annotations

from typing import Any

import pytest

from dray.server.security.composition import Security
from dray.server.security.node_restriction import CREATE, Write
from dray.server.status import ApiError

from .cluster import Cluster, Object, node_user, refused, two_nodes

N1 = node_user("n1")


@pytest.fixture
def cluster() -> Cluster:
    return two_nodes()


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
    [
        ([], None),
        (["vault"], None),
        (["store"], None),
        (["bank"], 'not authorized to request tokens for audience "bank"'),
        (["vault", "bank"], "0 or 1 audiences"),
    ],
)
def test_tokens_are_for_audiences_that_the_pod_names(cluster: Cluster, audiences: list[str], why: str | None) -> None:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": "uid-of-pods-mine"}
    new = {"spec": {"boundObjectRef": bound, "audiences": audiences}}
    found = refused(cluster, CREATE, "", "serviceaccounts/token", namespace="default", name="runner", new=new)
    assert found is None if why is None else why in (found or "")


def test_further_audiences_are_granted(cluster: Cluster, security: Security) -> None:
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": "uid-of-pods-mine"}
    new = {"spec": {"boundObjectRef": bound, "audiences": ["bank"]}}
    write = Write(CREATE, "", "serviceaccounts", "token", "default", "runner", None, new)
    with pytest.raises(ApiError, match="bank"):
        security.check_write(N1, write)
    rule = {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["bank"]}
    role = {"metadata": {"name": "bank"}, "rules": [{**rule, "resourceNames": ["runner"]}]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bank"}
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}]
    security.policy.put("ClusterRole", role)
    binding = {"metadata": {"name": "bank"}, "roleRef": reference, "subjects": subjects}
    security.policy.put("ClusterRoleBinding", binding)
    security.check_write(N1, write)


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
