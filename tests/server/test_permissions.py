"""What a verb needs beyond itself."""

import msgspec
import pytest

from dray.api.protobuf import envelope
from dray.server.authorization import User
from tests.server.api import APPLY, MAPS, NODES, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}


def permit(api, *verbs, resources=("configmaps", "leases")):
    """Lets `ann` do this with leases and config maps, and nothing else."""
    rules = [{"apiGroups": ["", "coordination.k8s.io"], "resources": list(resources), "verbs": list(verbs)}]
    api.create(f"{RBAC}/roles", {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    api.create(f"{RBAC}/rolebindings", binding)
    api.user = User("ann", ("system:authenticated",))


def put(api):
    return api.ask("PUT", f"{LEASES}/l", LEASE)[0]


def apply(api):
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("m")}
    return api.ask("PATCH", f"{MAPS}/m?fieldManager=x", body, content_type=APPLY)[0]


@pytest.mark.parametrize("write", [put, apply])
def test_an_update_that_creates_needs_the_right_to_create(api, write):
    permit(api, "update", "patch", "get")
    assert write(api) == 403


@pytest.mark.parametrize("write", [put, apply])
def test_with_that_right_it_creates_and_then_updates(api, write):
    permit(api, "update", "patch", "create")
    assert write(api) == 201
    assert write(api) == 200


def test_a_right_in_a_namespace_is_one_to_the_namespace_itself(api):
    api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    permit(api, "get", "delete", resources=["namespaces"])
    assert api.get("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    code, answer = api.ask("GET", "/api/v1/namespaces/other")
    assert code == 403
    assert answer["message"] == (
        'namespaces "other" is forbidden: User "ann" cannot get resource "namespaces" in API group "" '
        'in the namespace "other"'
    )
    code, answer = api.ask("GET", "/api/v1/namespaces")
    assert code == 403
    assert answer["message"].endswith("at the cluster scope")


@pytest.mark.parametrize("form", ["application/json", "application/vnd.kubernetes.protobuf"])
def test_a_node_creates_no_other_node(api, form):
    api.user = User("system:node:n1", ("system:nodes", "system:authenticated"))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "status": {"daemonEndpoints": {}}}
    content = msgspec.json.encode(node) if form == "application/json" else envelope.encode(node)
    code, answer = api.ask("POST", NODES, content, content_type=form)
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == 'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'
