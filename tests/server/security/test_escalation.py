from __future__ import annotations

import pytest

from dray.server.authorization import User
from dray.server.security.composition import Security
from dray.server.security.node_restriction import CREATE, UPDATE, Write
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP, ROLE_BINDING
from dray.server.status import ApiError

from .cluster import Object, user
from .test_rbac import binding, role, rule, subject

JANE = user("jane")


@pytest.fixture
def team(security: Security) -> Security:
    """Jane is admin of the namespace `team`, and may write cluster roles, with nothing to put into them."""
    security.policy.put(ROLE_BINDING, binding("admins", "admin", subject("User", "jane"), namespace="team"))
    writer = role("writer", rule("create update get", GROUP, "clusterroles clusterrolebindings"))
    security.policy.put(CLUSTER_ROLE, writer)
    security.policy.put(CLUSTER_ROLE_BINDING, binding("writers", "writer", subject("User", "jane")))
    return security


def write(
    security: Security, resource: str, new: Object, old: Object | None = None, namespace: str = "", who: User = JANE
) -> int:
    """200, or the code of the refusal."""
    operation = CREATE if old is None else UPDATE
    try:
        security.check_write(
            who, Write(operation, GROUP, resource, "", namespace, new["metadata"].get("name", ""), old, new)
        )
    except ApiError as error:
        return error.code
    return 200


def test_an_admin_grants_what_admins_hold_and_no_more(team: Security) -> None:
    assert write(team, "roles", role("r", rule("get", "core", "pods")), namespace="team") == 200
    assert write(team, "roles", role("r", rule("get", "core", "nodes")), namespace="team") == 403
    assert write(team, "roles", role("r", rule("*", "core", "pods")), namespace="team") == 403
    assert write(team, "roles", role("r", rule("get", "*", "pods")), namespace="team") == 403
    assert write(team, "roles", role("r", rule("get", "core", "*")), namespace="team") == 403
    assert write(team, "roles", role("r", rule("get", "core", "pods")), namespace="other") == 403


def test_the_namespace_of_the_request_counts_not_that_of_the_body(team: Security) -> None:
    body = role("r", rule("get", "core", "pods"), namespace="team")
    assert write(team, "roles", body, namespace="other") == 403
    reference = binding("b", "view", subject("User", "bob"), namespace="team")
    assert write(team, "rolebindings", reference, namespace="other") == 403


def test_what_counts_in_a_namespace_does_not_count_in_the_cluster(team: Security) -> None:
    assert write(team, "clusterroles", role("r", rule("get", "core", "pods"))) == 403
    # A namespace that somebody put into the request for an object of the cluster changes nothing.
    assert write(team, "clusterroles", role("r", rule("get", "core", "pods")), namespace="team") == 403
    assert write(team, "clusterrolebindings", binding("b", "view", subject("User", "jane"))) == 403
    assert write(team, "clusterrolebindings", binding("b", "view", subject("User", "jane")), namespace="team") == 403


def test_bindings(team: Security) -> None:
    bob = subject("User", "bob")
    assert write(team, "rolebindings", binding("b", "edit", bob), namespace="team") == 200
    assert write(team, "rolebindings", binding("b", "cluster-admin", bob), namespace="team") == 403
    assert write(team, "rolebindings", binding("b", "absent", bob), namespace="team") == 404


def test_bind_and_escalate_lift_the_check(team: Security) -> None:
    powers = role("powers", rule("bind", GROUP, "clusterroles", "cluster-admin"), rule("escalate", GROUP, "roles"))
    team.policy.put(CLUSTER_ROLE, powers)
    team.policy.put(CLUSTER_ROLE_BINDING, binding("powers", "powers", subject("User", "jane")))
    bob = subject("User", "bob")
    assert write(team, "rolebindings", binding("b", "cluster-admin", bob), namespace="x") == 200
    assert write(team, "rolebindings", binding("b", "system:node", bob), namespace="x") == 403
    assert write(team, "roles", role("r", rule("*", "*", "*")), namespace="x") == 200
    assert write(team, "clusterroles", role("r", rule("*", "*", "*"))) == 403


def test_aggregated_roles_need_everything(team: Security) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
    assert write(team, "clusterroles", {**role("r"), "aggregationRule": selector}) == 403
    assert write(team, "clusterroles", role("r")) == 200
    old = role("r")
    assert write(team, "clusterroles", {**old, "aggregationRule": selector}, old) == 403


def test_a_role_cannot_be_smuggled_into_an_aggregated_one(team: Security) -> None:
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert write(team, "clusterroles", role("r", rule("get", "core", "secrets"), labels=labels)) == 403


def test_a_label_that_makes_a_role_part_of_another_is_a_grant(team: Security) -> None:
    old = {**role("strong", rule("*", "*", "*"))}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert write(team, "clusterroles", role("strong", rule("*", "*", "*"), labels=labels), old) == 403
    labelled = role("strong", rule("*", "*", "*"), labels=labels)
    assert write(team, "clusterroles", {**labelled, "metadata": {**labelled["metadata"], "x": 1}}, labelled) == 200
    assert write(team, "clusterroles", old, labelled) == 200
    assert write(team, "clusterroles", role("strong", rule("*", "*", "*"), labels={"team": "a"}), old) == 200


def test_an_update_that_grants_nothing_new_is_not_checked(team: Security) -> None:
    old = role("r", rule("*", "*", "*"))
    labelled = {**old, "metadata": {"name": "r", "labels": {"a": "b"}}}
    assert write(team, "clusterroles", labelled, old) == 200
    assert write(team, "clusterroles", role("r", rule("*", "*", "*"), rule("get", "core", "pods")), old) == 403
    bound = binding("b", "cluster-admin", subject("User", "bob"))
    assert write(team, "clusterrolebindings", {**bound, "metadata": {"name": "b", "labels": {}}}, bound) == 200
    more = binding("b", "cluster-admin", subject("User", "bob"), subject("User", "jane"))
    assert write(team, "clusterrolebindings", more, bound) == 403


def test_masters_may_grant_anything(team: Security) -> None:
    root = user("root", "system:masters")
    assert write(team, "clusterroles", role("r", rule("*", "*", "*")), who=root) == 200


def test_urls_and_names_are_covered_exactly(team: Security) -> None:
    team.policy.put(
        CLUSTER_ROLE,
        role("own", {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}, rule("get", "core", "secrets", "a b")),
    )
    team.policy.put(CLUSTER_ROLE_BINDING, binding("own", "own", subject("User", "jane")))
    for urls, code in ((["/logs/x"], 200), (["/logs/*"], 200), (["/logs*"], 403), (["*"], 403), (["/logs"], 403)):
        assert write(team, "clusterroles", role("r", {"verbs": ["get"], "nonResourceURLs": urls})) == code
    assert write(team, "clusterroles", role("r", rule("get", "core", "secrets", "a"))) == 200
    assert write(team, "clusterroles", role("r", rule("get", "core", "secrets", "a b"))) == 200
    assert write(team, "clusterroles", role("r", rule("get", "core", "secrets", "c"))) == 403
    assert write(team, "clusterroles", role("r", rule("get", "core", "secrets"))) == 403


def test_the_refusal_lists_what_is_lacking(team: Security) -> None:
    new = role("r", rule("get list", "core", "nodes"))
    with pytest.raises(ApiError) as refusal:
        team.check_write(JANE, Write(CREATE, GROUP, "clusterroles", "", "", "r", None, new))
    assert refusal.value.message == (
        'clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}\n{APIGroups:[""], Resources:["nodes"], Verbs:["list"]}'
    )


def test_a_rule_of_a_thousand_lists_does_not_hang(team: Security) -> None:
    many = [str(number) for number in range(1000)]
    assert write(team, "clusterroles", role("r", {"verbs": many, "apiGroups": many, "resources": many})) == 403


def test_many_rules_held_and_many_wanted_are_not_multiplied(team: Security) -> None:
    many = role("many", *(rule("get", "core", "pods", f"p{number}") for number in range(3000)))
    team.policy.put(CLUSTER_ROLE, many)
    team.policy.put(CLUSTER_ROLE_BINDING, binding("many", "many", subject("User", "jane")))
    wanted = [rule("get", "core", "pods", f"q{number}") for number in range(3000)]
    assert write(team, "roles", role("r", *wanted), namespace="team") == 403
    assert write(team, "roles", role("r", rule("get", "core", "pods", "p7")), namespace="team") == 200
