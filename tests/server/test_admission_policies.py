"""ValidatingAdmissionPolicies: what they refuse, with which words, and whom they leave alone."""

import pytest

from dray.server.authorization import User
from tests.server.api import CLAIMS, MAPS, MERGE, PODS, config_map, pod, serving

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
MAP_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def policy(*validations, rule=MAP_RULE, constraints=None, **spec):
    given = [each if isinstance(each, dict) else {"expression": each} for each in validations]
    match = {"resourceRules": [rule], **(constraints or {})}
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": match, "validations": given, **spec}}


def bind(api, body, actions=("Deny",), **spec):
    made = api.create(POLICIES, body)
    api.create(
        BINDINGS,
        {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": list(actions), **spec}},
    )
    return made


def test_refuses_in_the_words_of_kubernetes(api):
    bind(api, policy({"expression": "object.data.a == 'x'", "messageExpression": "'not ' + object.data.a"}))
    code, answer = api.ask("POST", MAPS, config_map("m", {"a": "y"}))
    said = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not y"
    assert (code, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == f'configmaps "m" is forbidden: {said}'
    assert answer["details"]["causes"] == [{"message": said}]
    api.create(MAPS, config_map("m", {"a": "x"}))
    assert api.ask("PATCH", f"{MAPS}/m", {"data": {"a": "z"}}, content_type=MERGE)[0] == 422
    api.delete(f"{BINDINGS}/b")
    api.patch(f"{MAPS}/m", {"data": {"a": "z"}})


def test_asks_about_deletions(api):
    bind(api, policy({"expression": "oldObject.metadata.name != 'kept'", "reason": "Forbidden", "message": "stays"}))
    api.patch(
        f"{POLICIES}/p", {"spec": {"matchConditions": [{"name": "d", "expression": "request.operation == 'DELETE'"}]}}
    )
    for name in ("kept", "other"):
        api.create(MAPS, config_map(name))
    code, answer = api.ask("DELETE", f"{MAPS}/kept")
    assert (code, answer["reason"]) == (403, "Forbidden")
    api.delete(f"{MAPS}/other")


def test_parameters_and_lazy_variables(api):
    body = policy(
        {"expression": "variables.count <= int(params.data.max)", "message": "too many"},
        rule={**MAP_RULE, "resources": ["pods"]},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[
            {"name": "count", "expression": "size(object.spec.containers)"},
            {"name": "never", "expression": "object.spec.nothing.of.the.kind"},
        ],
    )
    bind(api, body, paramRef={"name": "limits", "parameterNotFoundAction": "Deny"})
    code, answer = api.ask("POST", PODS, pod("a"))
    assert code == 422
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in answer["message"]
    api.create(MAPS, config_map("limits", {"max": "1"}))
    api.create(PODS, pod("a"))
    two = [{"name": name, "image": "x"} for name in "ab"]
    assert "too many" in api.ask("POST", PODS, pod("b", containers=two))[1]["message"]


def test_failures_follow_the_failure_policy(api):
    bind(api, policy("object.data.missing == 'x'"))
    code, answer = api.ask("POST", MAPS, config_map("m", {"a": "x"}))
    assert code == 422
    assert "expression 'object.data.missing == 'x'' resulted in error: no such key: missing" in answer["message"]
    api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})
    api.create(MAPS, config_map("m", {"a": "x"}))


def test_warnings_and_annotations(api):
    annotations = [{"key": "seen", "valueExpression": "'data ' + string(size(object.data))"}]
    bind(api, policy("false", auditAnnotations=annotations), actions=("Warn", "Audit"))
    api.create(MAPS, config_map("m", {"a": "x"}))
    said = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
    assert api.warnings == [said]
    text = api.raw("GET", "/metrics").body.decode()
    labels = 'enforcement_action="warn",policy="p",policy_binding="b"'
    assert f"apiserver_validating_admission_policy_check_total{{{labels}}} 1.0" in text


@pytest.mark.parametrize(
    ("constraints", "spec"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, {}),
        ({"objectSelector": {"matchLabels": {"team": "x"}}}, {}),
        ({"excludeResourceRules": [{**MAP_RULE, "resourceNames": ["m"]}]}, {}),
        ({}, {"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'nobody'"}]}),
    ],
)
def test_leaves_alone_what_it_does_not_match(api, constraints, spec):
    bind(api, policy("false", constraints=constraints, **spec))
    api.create(MAPS, config_map("m"))


def test_asks_the_authorizer(api):
    expression = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
    bind(api, policy(expression, rule={**MAP_RULE, "operations": ["CREATE"]}))
    api.create(MAPS, config_map("m"))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": "maps"}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"}
    eve = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}
    api.create(f"{rbac}/clusterrolebindings", {"metadata": {"name": "e"}, "roleRef": role, "subjects": [eve]})
    api.user = User("eve", ("system:authenticated",))
    code, answer = api.ask("POST", MAPS, config_map("n"))
    assert (code, "denied request: failed expression" in answer["message"]) == (422, True)


def test_sees_other_versions_in_its_own(api):
    rule = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"]}
    bind(
        api,
        policy("object.spec.devices.requests.all(r, has(r.exactly))", rule={**rule, "resources": ["resourceclaims"]}),
    )
    old = CLAIMS.replace("/v1/", "/v1beta1/")
    request = {"name": "g", "deviceClassName": "gpu"}
    api.create(old, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    api.patch(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false"}]}})
    late = {"metadata": {"name": "d"}, "spec": {"devices": {"requests": [request]}}}
    assert api.ask("POST", old, late)[0] == 422
    api.patch(f"{POLICIES}/p", {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}})
    api.create(old, late)


def test_expressions_are_compiled_when_they_come(api):
    code, _, fields = api.refusal("POST", POLICIES, policy("object.spec", "foo(1)", "params.x == 1"))
    assert (code, fields) == (422, [f"spec.validations[{index}].expression" for index in range(3)])


def test_types_are_checked_against_the_kinds_matched(api):
    made = bind(
        api,
        policy("object.spec.replicas > 1", "object.spec.hostNetwork > '1'", rule={**MAP_RULE, "resources": ["pods"]}),
    )
    found = made["status"]["typeChecking"]["expressionWarnings"]
    assert [each["fieldRef"] for each in found] == [f"spec.validations[{index}].expression" for index in (0, 1)]
    assert "v1, Kind=Pod: ERROR: <input>:1:12: undefined field 'replicas'" in found[0]["warning"]
    assert "found no matching overload for '_>_' applied to '(bool, string)'" in found[1]["warning"]


def test_a_policy_outlives_the_server():
    with serving() as api:
        bind(api, policy("false"))
        again = type(api)(api.runner, type(api.context)(api.context.store))
        assert again.ask("POST", MAPS, config_map("m"))[0] == 422
        again.runner.run(again.server.close())


def test_a_loop_without_end_spends_its_budget(api):
    numbers = f"[{','.join('1' * 1 for _ in range(200))}]"
    loop = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c > 0)))"
    bind(api, policy(loop))
    code, answer = api.ask("POST", MAPS, config_map("m"))
    assert code == 422
    assert "cost limit exceeded" in answer["message"]


def test_very_long_policies_are_refused(api):
    code, _, fields = api.refusal("POST", POLICIES, policy(*["object.data.a == '" + "x" * 9000 + "'"] * 8))
    assert (code, fields) == (422, ["spec"])


def test_asks_about_parts_of_pods(api):
    rule = {**MAP_RULE, "resources": ["pods/ephemeralcontainers"]}
    bind(api, policy("object.spec.ephemeralContainers.all(c, c.image != 'evil')", rule=rule))
    api.create(PODS, pod("p"))
    for image, wanted in (("good", 200), ("evil", 422)):
        debug = {"name": image, "image": image, "terminationMessagePolicy": "File"}
        body = {"spec": {"ephemeralContainers": [debug]}}
        kind = "application/strategic-merge-patch+json"
        assert api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", body, content_type=kind)[0] == wanted


def test_tables(api):
    bind(api, policy("true", "true"))
    table = api.get(POLICIES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:3] == ["p", 2, "<unset>"]
    table = api.get(BINDINGS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:3] == ["b", "p", "<unset>"]
