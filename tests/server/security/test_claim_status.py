from __future__ import annotations

from typing import Any

import pytest

from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.claim_status import authorize_status
from dray.server.security.composition import Security
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING

from .cluster import Object, user
from .test_rbac import binding, role, rule, subject

DRA = "resource.k8s.io"
NODE_NAME = "authentication.kubernetes.io/node-name"
DRIVER = "gpu.example.com"
ACCOUNT = "system:serviceaccount:gpu:driver"


def allocation(node: str = "n1", **changes: Any) -> Object:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": [term]}, **changes}


def device(driver: str = DRIVER, **changes: Any) -> Object:
    return {"driver": driver, "pool": "p", "device": "d", **changes}


def driver_user(*nodes: str, name: str = ACCOUNT) -> User:
    return User(name, (AUTHENTICATED,), extra={NODE_NAME: nodes} if nodes else {})


@pytest.fixture
def granted(security: Security) -> Security:
    """The driver's account may write its own devices on its node; `multi` those of any node; `binder` may bind."""
    associated = rule("associated-node:update associated-node:patch", DRA, "resourceclaims/driver", DRIVER)
    roles = {
        "driver": (associated, ACCOUNT),
        "multi": (rule("arbitrary-node:update", DRA, "resourceclaims/driver", DRIVER), "multi"),
        "binder": (rule("update", DRA, "resourceclaims/binding"), "binder"),
        "status": (rule("update patch", DRA, "resourceclaims/status resourceclaims"), "writer"),
    }
    for name, (granting, who) in roles.items():
        security.policy.put(CLUSTER_ROLE, role(name, granting))
        security.policy.put(CLUSTER_ROLE_BINDING, binding(name, name, subject("User", who)))
    return security


def problems(security: Security, who: User, old: Object, new: Object, verb: str = "update") -> list[str]:
    found = authorize_status(
        {"status": old}, {"status": new}, user=who, verb=verb, namespace="team", authorizer=security.authorizer
    )
    assert all(problem.reason == "FieldValueForbidden" for problem in found)
    return [problem.field for problem in found]


def test_binding_needs_its_own_grant(granted: Security) -> None:
    reserved = {"allocation": allocation(), "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    for new in ({"allocation": allocation()}, reserved):
        assert problems(granted, user("writer"), {}, new) == ["status.allocation"]
        assert problems(granted, user("binder"), {}, new) == []
        assert problems(granted, user("system:kube-scheduler"), {}, new, "patch") == []
    assert problems(granted, user("binder"), {}, reserved, "patch") == ["status.allocation"]
    assert problems(granted, user("writer"), reserved, {}) == ["status.allocation"]


def test_a_grant_in_one_namespace_is_not_enough_to_bind(granted: Security) -> None:
    granted.policy.put(ROLE_BINDING, binding("b", "binder", subject("User", "jane"), namespace="team"))
    assert problems(granted, user("jane"), {}, {"allocation": allocation()}) == ["status.allocation"]


def test_a_grant_by_name_is_not_enough_to_bind(granted: Security) -> None:
    granted.policy.put(CLUSTER_ROLE, role("named", rule("update", DRA, "resourceclaims/binding", "claim")))
    granted.policy.put(CLUSTER_ROLE_BINDING, binding("named", "named", subject("User", "jane")))
    assert problems(granted, user("jane"), {}, {"allocation": allocation()}) == ["status.allocation"]


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (driver_user("n1"), True),
        (driver_user("n2"), False),
        (driver_user(), False),
        (driver_user("n1", "n2"), False),
        (driver_user("n1", "n1"), False),
        (driver_user("N1"), False),
        (driver_user("n1", name="driver"), False),
        (driver_user("n1", name="system:serviceaccount:gpu"), False),
        (user("multi"), True),
        (user("writer"), False),
        (user("binder"), False),
    ],
)
@pytest.mark.parametrize("change", ["added", "changed", "removed"])
def test_devices_need_the_grant_of_their_driver(granted: Security, who: User, expected: bool, change: str) -> None:
    without, with_one = {"allocation": allocation()}, {"allocation": allocation(), "devices": [device()]}
    changed = {"allocation": allocation(), "devices": [device(data={"x": 1})]}
    old, new = {"added": (without, with_one), "changed": (with_one, changed), "removed": (with_one, without)}[change]
    assert problems(granted, who, old, new) == ([] if expected else ["status.devices"])


def test_other_drivers_stay_out_of_reach(granted: Security) -> None:
    old = {"allocation": allocation(), "devices": [device("a.example.com"), device("z.example.com")]}
    new = {"allocation": allocation(), "devices": [device(data=1)]}
    found = authorize_status(
        {"status": old},
        {"status": new},
        user=driver_user("n1"),
        verb="update",
        namespace="team",
        authorizer=granted.authorizer,
    )
    assert [problem.field for problem in found] == ["status.devices"] * 2
    assert ["a.example.com" in problem.detail for problem in found] == [True, False]
    assert 'verb="[associated-node:update arbitrary-node:update]"' in found[0].detail


def test_drivers_need_no_grant_to_bind_where_nothing_is_bound(granted: Security) -> None:
    old = {"allocation": allocation(), "reservedFor": [], "devices": []}
    new = {"allocation": allocation(), "devices": [device()]}
    assert problems(granted, driver_user("n1"), old, new) == []


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {"nodeSelectorTerms": []},
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
        {"nodeSelectorTerms": [allocation()["nodeSelector"]["nodeSelectorTerms"][0]] * 2},
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]},
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}]},
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}]}]},
    ],
)
def test_only_an_allocation_on_one_node_has_a_node(granted: Security, selector: Object | None) -> None:
    held = allocation(nodeSelector=selector)
    status = {"allocation": held}
    assert problems(granted, driver_user("n1"), status, {**status, "devices": [device()]}) == ["status.devices"]


def test_the_new_allocation_decides_which_node(granted: Security) -> None:
    """Moving the allocation to one's own node is stopped at the binding."""
    old = {"allocation": allocation("n2")}
    new = {"allocation": allocation("n1"), "devices": [device()]}
    assert problems(granted, driver_user("n1"), old, new) == ["status.allocation"]


def test_devices_are_not_checked_when_the_allocation_goes(granted: Security) -> None:
    old = {"allocation": allocation(), "devices": [device()]}
    assert problems(granted, user("binder"), old, {}) == []


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ({"reservedFor": []}, {}, True),
        ({"allocation": None}, {}, True),
        ({"allocation": {}}, {}, False),
        ({"allocation": allocation(nodeSelector=None)}, {"allocation": allocation(nodeSelector={})}, False),
        ({"allocation": {"devices": {"results": []}}}, {"allocation": {"devices": {}}}, True),
        (
            {"allocation": {"devices": {"results": [{"consumedCapacity": {"m": "1Gi"}}]}}},
            {"allocation": {"devices": {"results": [{"consumedCapacity": {"m": "1024Mi"}}]}}},
            True,
        ),
        (
            {"allocation": {"devices": {"results": [{"consumedCapacity": {"m": "1Gi"}}]}}},
            {"allocation": {"devices": {"results": [{"consumedCapacity": {"m": "1G"}}]}}},
            False,
        ),
    ],
)
def test_changes_count_by_meaning(granted: Security, old: Object, new: Object, same: bool) -> None:
    assert problems(granted, user("writer"), old, new) == ([] if same else ["status.allocation"])


@pytest.mark.parametrize(("before", "after"), [({"a": {}}, {}), ({"a": None}, {}), (1, True), ({"a": 0}, {"a": False})])
def test_free_data_counts_as_written(granted: Security, before: Any, after: Any) -> None:
    old = {"allocation": allocation(), "devices": [device(data=before)]}
    new = {"allocation": allocation(), "devices": [device(data=after)]}
    assert problems(granted, user("writer"), old, new) == ["status.devices"]


def test_shares_of_one_device_are_told_apart(granted: Security) -> None:
    old = {"allocation": allocation(), "devices": [device(shareID="a"), device(shareID="b", data=1)]}
    new = {"allocation": allocation(), "devices": [device(shareID="b", data=1), device(shareID="a")]}
    assert problems(granted, user("writer"), old, new) == []
