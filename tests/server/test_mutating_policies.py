"""MutatingAdmissionPolicies: what they make of objects before these are checked."""

from tests.server.api import MAPS, PODS, config_map, pod

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/mutatingadmissionpolicies"
BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"


def patching(text):
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}


def applying(text):
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


def policy(name, *mutations, resource="configmaps", **spec):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    given = {"matchConstraints": {"resourceRules": [rule]}, "mutations": list(mutations), "reinvocationPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def bind(api, *policies):
    for each in policies:
        name = each["metadata"]["name"]
        api.create(POLICIES, each)
        api.create(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}})


def test_a_configuration_is_merged_by_key(api):
    sidecar = "Object.spec.initContainers{name: 'mesh', image: 'mesh:' + object.metadata.name, restartPolicy: 'Always'}"
    text = (
        f"Object{{spec: Object.spec{{initContainers: [{sidecar}]}}, metadata: Object.metadata{{labels: {{'a': 'b'}}}}}}"
    )
    condition = {"name": "once", "expression": "!has(object.spec.initContainers)"}
    bind(api, policy("p", applying(text), resource="pods", matchConditions=[condition]))
    made = api.create(PODS, pod("p"))
    assert made["metadata"]["labels"] == {"a": "b"}
    assert [each["image"] for each in made["spec"]["initContainers"]] == ["mesh:p"]
    assert [each["name"] for each in made["spec"]["containers"]] == ["main"]


def test_patches_see_what_those_before_left(api):
    first = "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('b'), value: variables.v}]"
    second = "has(object.data.b) ? [JSONPatch{op: 'add', path: '/data/c', value: object.data.b + '!'}] : []"
    variables = [{"name": "v", "expression": "object.data.a + '?'"}]
    bind(api, policy("p", patching(first), patching(second), variables=variables))
    assert api.create(MAPS, config_map("m"))["data"] == {"a": "1", "b": "1?", "c": "1?!"}
    assert api.patch(f"{MAPS}/m", {"data": {"a": "2"}})["data"] == {"a": "2", "b": "2?", "c": "2?!"}


def test_what_others_changed_is_seen_again_where_asked_for(api):
    count = "[JSONPatch{op: 'add', path: '/data/seen', value: string(size(object.data))}]"
    more = "[JSONPatch{op: 'add', path: '/data/more', value: 'x'}]"
    bind(api, policy("a", patching(count), reinvocationPolicy="IfNeeded"), policy("b", patching(more)))
    assert api.create(MAPS, config_map("m"))["data"] == {"a": "1", "more": "x", "seen": "3"}


def test_what_comes_out_is_checked_like_anything_else(api):
    bind(api, policy("p", patching("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'x'}]")))
    assert api.refusal("POST", MAPS, config_map("m"))[0] == 422


def test_failures_follow_the_failure_policy(api):
    bind(api, policy("p", patching("[JSONPatch{op: 'remove', path: '/data/nothing'}]")))
    code, answer = api.ask("POST", MAPS, config_map("m"))
    assert code == 403
    assert "MutatingAdmissionPolicy 'p' with binding 'p' denied request" in answer["message"]
    api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})
    api.create(MAPS, config_map("m"))


def test_mutations_are_compiled_when_they_come(api):
    mutations = [patching("'x'"), applying("JSONPatch{op: 1}"), {"patchType": "Other"}]
    code, _, fields = api.refusal("POST", POLICIES, policy("p", *mutations))
    assert (code, fields) == (422, ["spec.mutations[2].patchType"])
    code, _, fields = api.refusal("POST", POLICIES, policy("p", *mutations[:2]))
    assert fields == [
        "spec.mutations[0].jsonPatch.expression",
        "spec.mutations[1].applyConfiguration.expression",
    ]


def test_served_in_the_beta_version_too(api):
    bind(api, policy("p", patching("[JSONPatch{op: 'add', path: '/data/b', value: 'x'}]")))
    beta = api.get(f"{POLICIES.replace('/v1/', '/v1beta1/')}/p")
    assert (beta["apiVersion"], beta["spec"]["failurePolicy"]) == ("admissionregistration.k8s.io/v1beta1", "Fail")
