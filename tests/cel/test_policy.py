"""Expressions of admission policies: what they may use, what they cost, and the objects that they make."""

import pytest

from dray.cel import policy
from dray.cel import types as t
from dray.cel.errors import CompileError
from dray.cel.library.authorizer import Authorizer, Decision, Question, ResourceCheck
from dray.cel.policy import JSON_PATCH, OBJECT, compile_policy


def decide(asked):
    return Decision(asked.verb == "get", f"{asked.resource}/{asked.name} {asked.account}")


VALUES = {
    "object": {"spec": {"replicas": 3}},
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"groups": ["a"]}},
    "params": {"max": 2},
    "namespaceObject": {"metadata": {"labels": {"team": "x"}}},
    "authorizer": Authorizer(decide),
    "authorizer.requestResource": ResourceCheck(decide, Question(resource="pods", name="p")),
    "variables": {"n": 4},
}
FULL = policy.environment(params=True, mutation=True, variables={"n": t.INT})


def run(text, *results, env=FULL):
    program = compile_policy(text, env, *results)
    return program.run(*[VALUES[name] for name in env.variables])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("object.spec.replicas > params.max && variables.n == 4", True),
        ("oldObject == null", True),
        ("request.userInfo.groups.exists(g, g == 'a')", True),
        ("namespaceObject.metadata.labels.team", "x"),
        ("authorizer.group('').resource('pods').namespace('x').name('q').check('get').allowed()", True),
        ("authorizer.path('/healthz').check('post').allowed()", False),
        ("authorizer.requestResource.check('get').reason()", "pods/p ('', '')"),
        ("authorizer.serviceAccount('a', 'b').group('').resource('x').check('get').reason()", "x/ ('a', 'b')"),
        ("authorizer.path('/x').check('get').errored()", False),
        ("jsonpatch.escapeKey('a/b~c')", "a~1b~0c"),
        ("isIP('10.0.0.1') && cidr('10.0.0.0/8').containsIP('10.0.0.1')", True),
        ("url('https://a.example.com/x').getHostname()", "a.example.com"),
        ("sets.contains([1, 2], [1]) && quantity('1Gi').isGreaterThan(quantity('1Mi'))", True),
        ("object.?spec.?nothing.orValue('none')", "none"),
    ],
)
def test_values(text, value):
    assert run(text).value == value


def test_objects_are_made_without_what_is_absent():
    made = run("Object{spec: Object.spec{replicas: object.spec.replicas + 1, ?gone: optional.none()}}", OBJECT)
    assert made.value == {"spec": {"replicas": 4}}
    patches = run("[JSONPatch{op: 'add', path: '/a', value: Object.x{b: 1}}]", t.list_of(JSON_PATCH))
    assert patches.value == [{"op": "add", "path": "/a", "value": {"b": 1}}]


def test_asking_the_authorizer_is_dear():
    assert run("authorizer.path('/x').check('get').allowed()").cost > 350_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("object.spec.replicas", "must evaluate to bool"),
        ("variables.other > 1", "undefined field 'other'"),
        ("request.other == ''", "undefined field 'other'"),
        ("Other{}", "undeclared reference to 'Other'"),
        ("[JSONPatch{op: 1}] == []", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("[JSONPatch{other: 1}] == []", "undefined field 'other'"),
        ("x" * 11_000, "too long"),
    ],
)
def test_what_does_not_compile(text, said):
    with pytest.raises(CompileError, match=None) as refused:
        run(text, t.BOOL)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text", ["variables.n == 1", "params.max == 1", "Object{} == Object{}", "namespaceObject == null"]
)
def test_conditions_of_webhooks_have_less(text):
    with pytest.raises(CompileError):
        run(text, t.BOOL, env=policy.environment(webhook=True))
