from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.server.authorization import ANONYMOUS, Access, User
from dray.server.security.builtin_roles import bootstrap, cluster_role_bindings, cluster_roles, namespaced
from dray.server.security.composition import Security
from dray.server.security.policy import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC, ROLE, ROLE_BINDING, Policy
from dray.server.security.rules import PolicyRule, TooManyPartsError, uncovered

from .cluster import Object, user

JANE = user("jane", "devs")
DRA = "resource.k8s.io"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Object:
    texts = {"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names}
    found = {key: ["" if word == "core" else word for word in text.split()] for key, text in texts.items()}
    return {key: words for key, words in found.items() if words}


def role(name: str, *rules: Object, namespace: str = "", **rest: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **rest}, "rules": list(rules)}


def binding(name: str, to: str, *subjects: Object, namespace: str = "", kind: str = "ClusterRole") -> Object:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": to}
    return {"metadata": {"name": name, "namespace": namespace}, "roleRef": reference, "subjects": list(subjects)}


def subject(kind: str, name: str, **rest: str) -> Object:
    return {"kind": kind, "name": name, **rest}


def allowed(rule: Object, verb: str, group: str, resource: str, subresource: str = "", name: str = "") -> bool:
    return PolicyRule.read(rule).allows(verb, group, resource, subresource, name)


@pytest.mark.parametrize(
    ("resources", "resource", "subresource", "expected"),
    [
        ("pods", "pods", "", True),
        ("pods", "pods", "status", False),
        ("pods/status", "pods", "", False),
        ("pods/status", "pods", "status", True),
        ("pods/*", "pods", "status", False),
        ("pods/*", "pods", "", False),
        ("*/status", "pods", "status", True),
        ("*/status", "pods", "", False),
        ("*/status", "pods", "log", False),
        ("*", "pods", "exec", True),
        ("*/*", "pods", "status", False),
        ("pod", "pods", "", False),
        ("Pods", "pods", "", False),
        ("resourceclaims", "resourceclaims", "binding", False),
    ],
)
def test_resources(resources: str, resource: str, subresource: str, expected: bool) -> None:
    assert allowed(rule("get", "core", resources), "get", "", resource, subresource) is expected


@pytest.mark.parametrize(
    ("verbs", "groups", "verb", "group", "expected"),
    [
        ("get", "core", "get", "", True),
        ("get", "core", "list", "", False),
        ("*", "core", "escalate", "", True),
        ("get", "*", "get", DRA, True),
        ("get", "*.k8s.io", "get", DRA, False),
        ("get", "core", "get", DRA, False),
        ("ge*", "core", "get", "", False),
        ("associated-node:*", DRA, "associated-node:update", DRA, False),
        ("update", DRA, "arbitrary-node:update", DRA, False),
    ],
)
def test_wildcards_stand_alone(verbs: str, groups: str, verb: str, group: str, expected: bool) -> None:
    assert allowed(rule(verbs, groups, "pods"), verb, group, "pods") is expected


@pytest.mark.parametrize("verb", ["create", "list", "watch", "deletecollection"])
def test_resource_names_never_match_a_request_without_a_name(verb: str) -> None:
    for names in (["a"], ["a", ""], [""]):
        limited = {**rule("*", "*", "*"), "resourceNames": names}
        assert not allowed(limited, verb, "", "secrets")
    assert allowed({**rule("*", "*", "*"), "resourceNames": ["a"]}, "list", "", "secrets", name="a")


def test_a_selector_by_name_counts_as_the_name_where_it_selects(policy: Policy) -> None:
    policy.put(CLUSTER_ROLE, role("r", rule("*", "core", "secrets", "a")))
    policy.put(CLUSTER_ROLE_BINDING, binding("b", "r", subject("User", "jane")))
    for verb in ("list", "watch", "deletecollection"):
        assert may(policy, JANE, verb, "secrets", "team", field_selector="metadata.name=a")
        for selector in ("", "metadata.name=b", "metadata.name!=a", "type=a", "metadata.name="):
            assert not may(policy, JANE, verb, "secrets", "team", field_selector=selector)
    for verb in ("create", "get", "update"):
        assert not may(policy, JANE, verb, "secrets", "team", field_selector="metadata.name=a")
    assert not may(policy, JANE, "watch", "secrets", "team", name="b", field_selector="metadata.name=a")


def test_resource_names_that_are_no_texts_do_not_vanish() -> None:
    assert not allowed({**rule("get", "core", "secrets"), "resourceNames": [1]}, "get", "", "secrets", name="a")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("/metrics", "/metrics", "/metrics/x"),
        ("/metrics/*", "/metrics/x", "/metrics"),
        ("/apis*", "/apisix", "/api"),
        ("*", "/anything", None),
        ("*/x", "*/x", "/a/x"),
        ("/healthz", "/healthz", "/healthz/../api"),
    ],
)
def test_urls(pattern: str, inside: str, outside: str | None) -> None:
    rule = PolicyRule.read({"verbs": ["get"], "nonResourceURLs": [pattern]})
    assert rule.allows_path("get", inside)
    assert outside is None or not rule.allows_path("get", outside)


@pytest.fixture
def policy() -> Policy:
    return Policy()


def may(policy: Policy, who: User, verb: str, resource: str, namespace: str = "", **rest: Any) -> bool:
    return RBAC(policy).authorize(who, Access(verb, "", resource, namespace=namespace, **rest)).allowed


@pytest.mark.parametrize(
    ("bound", "who", "expected"),
    [
        (subject("User", "jane"), JANE, True),
        (subject("User", "devs"), JANE, False),
        (subject("Group", "devs"), JANE, True),
        (subject("Group", "jane"), JANE, False),
        (subject("User", "jane", apiGroup="example.com"), JANE, False),
        (subject("ServiceAccount", "x", namespace="a"), user("system:serviceaccount:a:x"), True),
        (subject("ServiceAccount", "x", namespace="a"), user("system:serviceaccount:b:x"), False),
        (subject("ServiceAccount", "x"), user("system:serviceaccount:team:x"), True),
        (subject("ServiceAccount", "jane", namespace="a"), JANE, False),
        (subject("Role", "jane"), JANE, False),
    ],
)
def test_subjects(policy: Policy, bound: Object, who: User, expected: bool) -> None:
    policy.put(ROLE, role("r", rule("get", "core", "pods"), namespace="team"))
    policy.put(ROLE_BINDING, binding("b", "r", bound, namespace="team", kind="Role"))
    assert may(policy, who, "get", "pods", "team") is expected


def test_a_service_account_without_namespace_is_nobody_in_a_cluster_binding(policy: Policy) -> None:
    policy.put(CLUSTER_ROLE, role("r", rule("get", "core", "pods")))
    policy.put(CLUSTER_ROLE_BINDING, binding("b", "r", subject("ServiceAccount", "x")))
    assert not may(policy, user("system:serviceaccount::x"), "get", "pods")


def test_a_role_binding_reaches_one_namespace_only(policy: Policy) -> None:
    policy.put(CLUSTER_ROLE, role("r", rule("*", "*", "*"), {"verbs": ["*"], "nonResourceURLs": ["*"]}))
    policy.put(ROLE_BINDING, binding("b", "r", subject("User", "jane"), namespace="team"))
    assert may(policy, JANE, "delete", "pods", "team")
    assert not may(policy, JANE, "delete", "pods", "other")
    assert not may(policy, JANE, "list", "pods")
    assert not may(policy, JANE, "get", "nodes")
    assert not may(policy, JANE, "get", "", path="/metrics")
    assert not may(policy, JANE, "get", "", "team", path="/metrics")


def test_a_binding_does_not_reach_a_role_of_another_namespace(policy: Policy) -> None:
    policy.put(ROLE, role("r", rule("*", "*", "*"), namespace="other"))
    policy.put(ROLE_BINDING, binding("b", "r", subject("User", "jane"), namespace="team", kind="Role"))
    policy.put(CLUSTER_ROLE_BINDING, binding("c", "r", subject("User", "jane"), kind="Role"))
    assert not may(policy, JANE, "get", "pods", "team")
    assert not may(policy, JANE, "get", "pods", "other")
    assert not may(policy, JANE, "get", "pods")


def test_what_was_taken_away_is_gone_at_once(policy: Policy) -> None:
    policy.put(CLUSTER_ROLE, role("r", rule("get", "core", "pods")))
    policy.put(CLUSTER_ROLE_BINDING, binding("b", "r", subject("User", "jane")))
    assert may(policy, JANE, "get", "pods")
    policy.put(CLUSTER_ROLE, role("r"))
    assert not may(policy, JANE, "get", "pods")
    policy.put(CLUSTER_ROLE, role("r", rule("get", "core", "pods")))
    policy.remove(CLUSTER_ROLE_BINDING, "", "b")
    assert not may(policy, JANE, "get", "pods")


def test_rules_that_many_roles_collect_are_read_once(policy: Policy) -> None:
    rules = [rule("get", "core", f"things-{number}") for number in range(4000)]
    many = role("many", *rules, labels={"to": "all"})
    policy.put(CLUSTER_ROLE, many)
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    roles = [{**role(f"r{number}"), "aggregationRule": selector} for number in range(60)]
    began = time.process_time()
    for each in roles:
        assert len(policy.aggregated(each)) == 4000
        policy.put(CLUSTER_ROLE, each)
    # Reading them anew for each took four times as long.
    assert time.process_time() - began < 1.0
    policy.put(CLUSTER_ROLE, {**many, "rules": [rule("get", "core", "pods")]})
    assert policy.aggregated(roles[0]) == [rule("get", "core", "pods")]
    policy.remove(CLUSTER_ROLE, "", "many")
    assert not policy.aggregated(roles[0])


def test_aggregated_roles_follow_their_parts(policy: Policy) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    policy.put(CLUSTER_ROLE, {**role("all", rule("*", "*", "*")), "aggregationRule": selector})
    policy.put(CLUSTER_ROLE_BINDING, binding("b", "all", subject("User", "jane")))
    assert not may(policy, JANE, "get", "pods"), "what is written in an aggregated role does not count"
    policy.put(CLUSTER_ROLE, role("part", rule("get", "core", "pods"), labels={"to": "all"}))
    assert may(policy, JANE, "get", "pods")
    aggregated = {**role("all"), "aggregationRule": selector}
    assert policy.aggregated(aggregated) == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def test_aggregation_in_a_circle_ends(policy: Policy) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        selector = {"clusterRoleSelectors": [{"matchLabels": {"to": name}}]}
        policy.put(CLUSTER_ROLE, {**role(name, labels={"to": other}), "aggregationRule": selector})
    policy.put(CLUSTER_ROLE, role("part", rule("get", "core", "pods"), labels={"to": "a"}))
    policy.put(CLUSTER_ROLE_BINDING, binding("x", "b", subject("User", "jane")))
    assert may(policy, JANE, "get", "pods")


def test_roles_that_select_each_other_are_read_once_each(policy: Policy) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    for number in range(40):
        policy.put(CLUSTER_ROLE, {**role(f"r{number}", labels={"to": "all"}), "aggregationRule": selector})
    policy.put(CLUSTER_ROLE, role("part", rule("get", "core", "pods"), labels={"to": "all"}))
    policy.put(CLUSTER_ROLE_BINDING, binding("x", "r7", subject("User", "jane")))
    assert may(policy, JANE, "get", "pods")
    assert not may(policy, JANE, "list", "pods")


def test_the_reason_names_the_binding(policy: Policy) -> None:
    policy.put(CLUSTER_ROLE, role("r", rule("get", "core", "pods")))
    policy.put(ROLE_BINDING, binding("b", "r", subject("Group", "devs"), namespace="team"))
    decision = RBAC(policy).authorize(JANE, Access("get", "", "pods", namespace="team"))
    assert decision.reason == 'RBAC: allowed by RoleBinding "team/b" of ClusterRole "r" to Group "devs"'


# What the built-in roles say, by the users that hold them.

SCHEDULER = user("system:kube-scheduler")
CLAIMS = user("system:serviceaccount:kube-system:resource-claim-controller")
EVICTION = user("system:serviceaccount:kube-system:device-taint-eviction-controller")


@pytest.mark.parametrize(
    ("who", "verb", "group", "resource", "subresource", "expected"),
    [
        (SCHEDULER, "update", DRA, "resourceclaims", "status", True),
        (SCHEDULER, "patch", DRA, "resourceclaims", "binding", True),
        (SCHEDULER, "update", DRA, "resourceclaims", "driver", False),
        (SCHEDULER, "create", "", "pods", "binding", True),
        (SCHEDULER, "create", "", "pods", "", False),
        (SCHEDULER, "update", DRA, "resourceslices", "", False),
        (SCHEDULER, "get", "", "secrets", "", False),
        (CLAIMS, "update", DRA, "resourceclaims", "binding", True),
        (CLAIMS, "create", DRA, "resourceclaims", "", True),
        (CLAIMS, "delete", "", "pods", "", False),
        (EVICTION, "delete", "", "pods", "", True),
        (EVICTION, "update", DRA, "devicetaintrules", "status", True),
        (EVICTION, "update", DRA, "resourceclaims", "status", False),
        (JANE, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", True),
        (JANE, "create", "authentication.k8s.io", "selfsubjectreviews", "", True),
        (JANE, "create", "authorization.k8s.io", "subjectaccessreviews", "", False),
        (JANE, "get", "", "pods", "", False),
        (ANONYMOUS, "create", "authentication.k8s.io", "selfsubjectreviews", "", False),
        (user("root", "system:masters"), "anything", "any.example.com", "things", "", True),
    ],
)
def test_built_in_grants(
    security: Security, who: User, verb: str, group: str, resource: str, subresource: str, expected: bool
) -> None:
    decision = security.authorizer.authorize(who, Access(verb, group, resource, subresource, "default", "x"))
    assert decision.allowed is expected


@pytest.mark.parametrize(
    ("role_name", "verb", "group", "resource", "subresource", "expected"),
    [
        ("view", "get", DRA, "resourceclaims", "", True),
        ("view", "get", DRA, "resourceclaims", "status", True),
        ("view", "create", DRA, "resourceclaims", "", False),
        ("view", "get", "", "secrets", "", False),
        ("view", "get", DRA, "resourceslices", "", False),
        ("view", "get", DRA, "deviceclasses", "", False),
        ("view", "create", "", "pods", "exec", False),
        ("edit", "create", DRA, "resourceclaimtemplates", "", True),
        ("edit", "update", DRA, "resourceclaims", "status", False),
        ("edit", "get", DRA, "resourceclaims", "status", True),
        ("edit", "get", "", "secrets", "", True),
        ("edit", "create", "rbac.authorization.k8s.io", "rolebindings", "", False),
        ("admin", "create", "rbac.authorization.k8s.io", "rolebindings", "", True),
        ("admin", "create", "", "pods", "exec", True),
        ("admin", "bind", "rbac.authorization.k8s.io", "clusterroles", "", False),
        ("admin", "update", "", "nodes", "", False),
        ("admin", "update", DRA, "resourceclaims", "binding", False),
        ("cluster-admin", "escalate", "any", "thing", "", True),
    ],
)
def test_user_roles(
    security: Security, role_name: str, verb: str, group: str, resource: str, subresource: str, expected: bool
) -> None:
    security.policy.put(ROLE_BINDING, binding("b", role_name, subject("User", "jane"), namespace="team"))
    decision = security.authorizer.authorize(JANE, Access(verb, group, resource, subresource, "team", "x"))
    assert decision.allowed is expected


@pytest.mark.parametrize(
    ("who", "path", "expected"),
    [
        (ANONYMOUS, "/healthz", True),
        (ANONYMOUS, "/version", True),
        (ANONYMOUS, "/api", False),
        (ANONYMOUS, "/metrics", False),
        (JANE, "/api/v1", True),
        (JANE, "/openapi/v3", True),
        (JANE, "/metrics", False),
        (user("m", "system:monitoring"), "/metrics", True),
    ],
)
def test_paths(security: Security, who: User, path: str, expected: bool) -> None:
    assert security.authorizer.authorize(who, Access("get", "", "", path=path)).allowed is expected


def test_built_in_objects_have_distinct_names_and_roles_that_exist() -> None:
    roles = [item["metadata"]["name"] for item in cluster_roles()]
    assert len(roles) == len(set(roles))
    assert {item["roleRef"]["name"] for item in cluster_role_bindings()} <= set(roles)


def account(name: str) -> User:
    return user(f"system:serviceaccount:kube-system:{name}", "system:serviceaccounts", "system:authenticated")


@pytest.mark.parametrize(
    ("who", "verb", "group", "resource", "namespace", "name", "expected"),
    [
        (user("system:kube-scheduler"), "list", "apps", "statefulsets", "", "", True),
        (user("prometheus", "system:monitoring"), "get", "", "nodes/metrics", "", "n1", True),
        (user("prometheus", "system:monitoring"), "get", "", "nodes/proxy", "", "n1", False),
        (
            user("system:kube-scheduler"),
            "get",
            "",
            "configmaps",
            "kube-system",
            "extension-apiserver-authentication",
            True,
        ),
        (user("system:kube-scheduler"), "get", "", "configmaps", "kube-system", "other", False),
        (user("system:kube-controller-manager"), "update", "coordination.k8s.io", "leases", "kube-system", "x", True),
        (user("system:kube-controller-manager"), "update", "coordination.k8s.io", "leases", "team", "x", False),
        (account("horizontal-pod-autoscaler"), "update", "apps", "deployments/scale", "team", "web", True),
        (account("ttl-controller"), "patch", "", "nodes", "", "n1", True),
        (account("bootstrap-signer"), "update", "", "configmaps", "kube-public", "cluster-info", True),
        (account("bootstrap-signer"), "update", "", "configmaps", "kube-system", "cluster-info", False),
        (user("system:kube-proxy"), "watch", "discovery.k8s.io", "endpointslices", "", "", True),
        (account("podgroup-protection-controller"), "update", "scheduling.k8s.io", "podgroups", "team", "g", True),
        (account("podgroup-protection-controller"), "delete", "scheduling.k8s.io", "podgroups", "team", "g", False),
        (account("job-controller"), "update", "scheduling.k8s.io", "workloads", "team", "w", True),
        (
            account("resourcepoolstatusrequest-controller"),
            "update",
            DRA,
            "resourcepoolstatusrequests/status",
            "",
            "r",
            True,
        ),
        (account("resourcepoolstatusrequest-controller"), "watch", DRA, "devicetaintrules", "", "", True),
    ],
)
def test_parts_of_kubernetes_beside_it(
    security: Security, who: User, verb: str, group: str, resource: str, namespace: str, name: str, expected: bool
) -> None:
    for each in namespaced():
        security.policy.put(each["kind"], each)
    plural, _, subresource = resource.partition("/")
    asked = Access(verb, group, plural, subresource, namespace, name)
    assert security.authorizer.authorize(who, asked).allowed is expected


def test_bootstrap_repairs_what_lost_something_and_keeps_what_was_added() -> None:
    everything = [*cluster_roles(), *cluster_role_bindings(), *namespaced()]
    assert list(bootstrap([])) == everything
    assert list(bootstrap(everything)) == []
    scheduler = next(item for item in cluster_roles() if item["metadata"]["name"] == "system:kube-scheduler")
    extra = rule("get", "core", "configmaps")
    damaged = {**scheduler, "rules": [*scheduler["rules"][1:], extra]}
    others = [item for item in everything if item != scheduler]
    (repaired,) = bootstrap([*others, damaged])
    assert extra in repaired["rules"]
    held = [PolicyRule.read(item) for item in repaired["rules"]]
    assert not uncovered(held, [PolicyRule.read(item) for item in scheduler["rules"]])
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    owned = {**damaged, "metadata": {**damaged["metadata"], "annotations": annotations}}
    assert list(bootstrap([*others, owned])) == []


words = st.sampled_from(["*", "a", "b", "c"])
resources = st.sampled_from(["*", "a", "b", "a/s", "b/s", "*/s", "a/*"])
rules = st.builds(
    PolicyRule,
    st.frozensets(words, min_size=1, max_size=2),
    st.frozensets(words, min_size=1, max_size=2),
    st.frozensets(resources, min_size=1, max_size=3),
    st.frozensets(st.sampled_from(["x", "y"]), max_size=2),
)
requests = st.tuples(
    st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from("ab"), st.sampled_from(["", "s"]),
    st.sampled_from(["", "x", "y"]),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(rules, max_size=3), st.lists(rules, max_size=2), requests)
def test_what_is_covered_allows_nothing_more(
    held: list[PolicyRule], wanted: list[PolicyRule], request: tuple[str, str, str, str, str]
) -> None:
    """Whoever can grant a rule could do everything it allows: the point of the whole check."""
    if uncovered(held, wanted):
        return
    if any(item.allows(*request) for item in wanted):
        assert any(item.allows(*request) for item in held)


def test_rules_that_multiply_without_end_are_refused() -> None:
    many = frozenset(map(str, range(1000)))
    with pytest.raises(TooManyPartsError):
        uncovered([], [PolicyRule(many, many, many)])
    everything = frozenset("*")
    assert uncovered([PolicyRule(everything, everything, everything)], [PolicyRule(many, many, many)]) == []
