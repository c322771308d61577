from __future__ import annotations

from typing import Any

import pytest

from dray.server.authorization import ADMIN, Access, User
from dray.server.security.composition import REVIEWS, Security
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING
from dray.server.status import ApiError

from .cluster import Object, node_user, user
from .test_rbac import binding, role, rule, subject

JANE = user("jane")


@pytest.fixture
def team(security: Security) -> Security:
    """Jane may view the namespace `team`."""
    security.policy.put(ROLE_BINDING, binding("viewers", "view", subject("User", "jane"), namespace="team"))
    return security


def attributes(verb: str, resource: str, namespace: str = "", **rest: Any) -> Object:
    return {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace, **rest}}


def ask(security: Security, kind: str, who: User, spec: Object, namespace: str = "") -> Object:
    answer = security.review(kind, who, {"spec": spec}, namespace)
    assert answer["kind"] == kind
    return dict(answer["status"])


def test_can_i(team: Security) -> None:
    kind = "SelfSubjectAccessReview"
    status = ask(team, kind, JANE, attributes("get", "pods", "team"))
    assert status["allowed"]
    assert status["reason"].startswith('RBAC: allowed by RoleBinding "team/viewers"')
    for spec in (attributes("get", "pods", "other"), attributes("get", "pods"), attributes("delete", "pods", "team")):
        assert ask(team, kind, JANE, spec) == {"allowed": False}
    assert ask(team, kind, ADMIN, attributes("*", "*", group="*"))["allowed"]
    assert ask(team, kind, JANE, attributes("get", "pods", "team", subresource="log"))["allowed"]
    assert ask(team, kind, JANE, attributes("get", "pods/log", "team"))["allowed"]
    assert not ask(team, kind, JANE, attributes("create", "pods/exec", "team"))["allowed"]


def test_asking_for_everything_is_not_asking_for_something(team: Security) -> None:
    wanted = attributes("*", "*", "team", group="*")
    assert not ask(team, "SelfSubjectAccessReview", JANE, wanted)["allowed"]


def test_can_i_reach_a_path(team: Security) -> None:
    for path, expected in (("/version", True), ("/metrics", False)):
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        assert ask(team, "SelfSubjectAccessReview", JANE, spec)["allowed"] is expected


def test_can_somebody_else(team: Security) -> None:
    spec = {**attributes("get", "pods", "team"), "user": "jane"}
    assert ask(team, "SubjectAccessReview", ADMIN, spec)["allowed"]
    assert not ask(team, "SubjectAccessReview", ADMIN, {**spec, "user": "bob"})["allowed"]
    assert ask(team, "SubjectAccessReview", ADMIN, {**spec, "user": "", "groups": ["system:masters"]})["allowed"]


def test_a_node_is_asked_about_with_its_selector(team: Security) -> None:
    requirement = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
    spec = {
        **attributes("list", "pods", fieldSelector={"requirements": [requirement]}),
        "user": "system:node:n1",
        "groups": ["system:nodes"],
    }
    assert ask(team, "SubjectAccessReview", ADMIN, spec)["allowed"]
    spec["resourceAttributes"]["fieldSelector"]["requirements"][0]["operator"] = "NotIn"
    assert not ask(team, "SubjectAccessReview", ADMIN, spec)["allowed"]


def test_a_local_review_stays_in_its_namespace(team: Security) -> None:
    spec = {**attributes("get", "pods", "team"), "user": "jane"}
    assert ask(team, "LocalSubjectAccessReview", ADMIN, spec, "team")["allowed"]
    bodies = [
        ({"spec": spec}, "other"),
        ({"spec": {**attributes("get", "pods"), "user": "jane"}}, "team"),
        ({"spec": spec, "metadata": {"namespace": "other"}}, "team"),
        ({"spec": {"user": "jane", "nonResourceAttributes": {"path": "/", "verb": "get"}}}, "team"),
    ]
    for body, namespace in bodies:
        with pytest.raises(ApiError) as refusal:
            team.review("LocalSubjectAccessReview", ADMIN, body, namespace)
        assert refusal.value.code in (400, 422)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("SelfSubjectAccessReview", {}),
        ("SelfSubjectAccessReview", {**attributes("get", "pods"), "nonResourceAttributes": {"path": "/"}}),
        ("SubjectAccessReview", attributes("get", "pods")),
        ("SubjectAccessReview", {"user": "jane"}),
        ("SelfSubjectRulesReview", {}),
        ("TokenReview", {}),
    ],
)
def test_questions_that_are_none(team: Security, kind: str, spec: Object) -> None:
    with pytest.raises(ApiError) as refusal:
        ask(team, kind, JANE, spec)
    assert refusal.value.code in (400, 422)


def test_the_list_of_what_i_may(team: Security) -> None:
    status = ask(team, "SelfSubjectRulesReview", JANE, {"namespace": "team"})
    claims = [item for item in status["resourceRules"] if "resourceclaims" in item["resources"]]
    assert claims[0]["verbs"] == ["get", "list", "watch"]
    assert any("/version" in item["nonResourceURLs"] for item in status["nonResourceRules"])
    assert status["incomplete"] is False
    elsewhere = ask(team, "SelfSubjectRulesReview", JANE, {"namespace": "other"})
    assert not any("resourceclaims" in item["resources"] for item in elsewhere["resourceRules"])
    everything = ask(team, "SelfSubjectRulesReview", ADMIN, {"namespace": "team"})
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in everything["resourceRules"]
    assert ask(team, "SelfSubjectRulesReview", node_user("n1"), {"namespace": "team"})["incomplete"] is True


def test_who_am_i(team: Security) -> None:
    who = User("jane", ("devs", "system:authenticated"), "u-1", {"a": ("b",)})
    assert ask(team, "SelfSubjectReview", who, {})["userInfo"] == {
        "username": "jane",
        "uid": "u-1",
        "groups": ["devs", "system:authenticated"],
        "extra": {"a": ["b"]},
    }


def test_every_review_has_an_answer(team: Security) -> None:
    for kind in REVIEWS:
        spec = {**attributes("get", "pods", "team"), "user": "x", "namespace": "team", "token": "x"}
        assert team.review(kind, JANE, {"spec": spec}, "team")["kind"] == kind


def test_reviews_need_their_own_permission(team: Security) -> None:
    with pytest.raises(ApiError) as refusal:
        team.authorize(JANE, Access("create", "authorization.k8s.io", "subjectaccessreviews"))
    assert refusal.value.code == 403
    delegator = role("d", rule("create", "authorization.k8s.io", "subjectaccessreviews"))
    team.policy.put(CLUSTER_ROLE, delegator)
    team.policy.put(CLUSTER_ROLE_BINDING, binding("d", "d", subject("User", "jane")))
    assert "ClusterRoleBinding" in team.authorize(
        JANE, Access("create", "authorization.k8s.io", "subjectaccessreviews")
    )


def test_the_words_of_a_refusal(team: Security) -> None:
    with pytest.raises(ApiError) as refusal:
        team.authorize(JANE, Access("list", "resource.k8s.io", "resourceclaims", namespace="other"))
    assert refusal.value.message == (
        'resourceclaims.resource.k8s.io is forbidden: User "jane" cannot list resource "resourceclaims" '
        'in API group "resource.k8s.io" in the namespace "other"'
    )
    with pytest.raises(ApiError) as refusal:
        team.authorize(JANE, Access("get", "", "", path="/metrics"))
    assert refusal.value.message == 'forbidden: User "jane" cannot get path "/metrics"'
