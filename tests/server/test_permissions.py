"""What a verb needs beyond itself."""

import pytest

from dray.server.authorization import User
from tests.server.api import APPLY, MAPS, config_map

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}


def permit(api, *verbs):
    """Lets `ann` do this with leases and config maps, and nothing else."""
    rules = [{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": list(verbs)}]
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
