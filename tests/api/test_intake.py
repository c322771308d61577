"""The way in: what is refused before validation, what is filled in, what the server owns."""

import pytest

from dray.api import catalogue, intake
from dray.api.gates import DEFAULT_GATES
from dray.api.intake import Accepted, Refusal
from dray.api.rules import ExpressionReport, LengthOnly, Rules

from .objects import CLAIM, CLASS, NOW, POD, POOL_REQUEST, RULE, SLICE, causes, changed, create, update


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": {"b": 1, "b": 2}}', 'duplicate field "a.b"'),
        (b'{"l": [{"b": 1}, {"b": 1, "b": 2}], "m": 1, "m": 1}', 'duplicate field "m", duplicate field "l[1].b"'),
        (b'{"a" : 1, "a"\n: 2}', 'duplicate field "a"'),
        (b'{"a": "\\u003a", "a": "\\u003A"}', 'duplicate field "a"'),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "nested too deeply"),
    ],
)
def test_bodies_that_are_not_an_object(body, problem):
    refusal = intake.read_json(body)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.reason) == (400, "BadRequest")
    assert problem in refusal.message


def test_text_that_looks_like_members_is_no_duplicate():
    assert intake.read_json(b'{"a": "\\"b\\": 1, \\"b\\": 2", "b": 1}') == {"a": '"b": 1, "b": 2', "b": 1}
    assert intake.read_json(b'{"a": "\\u003a"}') == {"a": ":"}


@pytest.mark.parametrize("changes", [{"kind": "Pod"}, {"apiVersion": "resource.k8s.io/v1beta1"}, {"kind": 5}])
def test_the_object_must_be_what_the_request_names(changes):
    target = catalogue.find("resource.k8s.io/v1", "ResourceClaim")
    verdict = intake.create(changed(CLAIM, changes), target, intake.Place("default"), Rules(), now=NOW)
    assert isinstance(verdict, Refusal)
    assert verdict.code == 400


def test_kind_and_version_may_be_left_out():
    target = catalogue.find("resource.k8s.io/v1", "ResourceClaim")
    body = {"metadata": {"name": "c"}, "spec": CLAIM["spec"]}
    accepted = intake.create(body, target, intake.Place("default"), Rules(), now=NOW)
    assert isinstance(accepted, Accepted)
    assert accepted.object["metadata"]["namespace"] == "default"


def test_the_namespace_must_be_that_of_the_request():
    target = catalogue.find("resource.k8s.io/v1", "ResourceClaim")
    verdict = intake.create(CLAIM, target, intake.Place("other"), Rules(), now=NOW)
    assert isinstance(verdict, Refusal)
    assert verdict.code == 400
    assert "namespace" in verdict.message


def test_the_name_must_be_that_of_the_url():
    verdict = update(changed(CLAIM, {"metadata.name": "other"}), CLAIM)
    assert verdict.code == 400


def test_structural_problems_are_named_in_the_message():
    verdict = create(changed(CLAIM, {"spec.devises": [], "spec.devices.requests": "gpu"}))
    assert verdict.code == 400
    assert "spec.devises" in verdict.message
    assert "spec.devices.requests" in verdict.message
    assert verdict.causes == ()


def test_defaults_of_a_claim():
    tolerant = {"spec.devices.requests.0.exactly.tolerations": [{"key": "k"}]}
    accepted = create(changed(CLAIM, tolerant))
    assert accepted.object["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}],
    }


def test_taints_get_the_time_of_the_write():
    assert create(RULE).object["spec"]["taint"]["timeAdded"] == NOW
    assert create(SLICE).object["spec"]["devices"][0]["taints"][0]["timeAdded"] == NOW


def test_what_the_server_owns_is_not_taken_from_a_client():
    mine = {"metadata.uid": "u", "metadata.generation": 7, "status.allocation": {}}
    accepted = create(changed(CLAIM, mine)).object
    assert "uid" not in accepted["metadata"]
    assert accepted["status"] == {}


def test_generation_counts_changes_of_the_spec():
    assert create(CLASS).object["metadata"]["generation"] == 1
    stored = create(CLASS).object
    same = update(changed(CLASS, {"metadata.labels": {"a": "b"}}), stored)
    assert same.object["metadata"]["generation"] == 1
    other = update(changed(CLASS, {"spec.selectors.0.cel.expression": "false"}), stored)
    assert other.object["metadata"]["generation"] == 2
    assert "generation" not in create(CLAIM).object["metadata"]


@pytest.mark.parametrize(
    "given",
    [{"spec.containers.0.args": []}, {"spec.nodeSelector": {}}, {"spec.containers.0.env": [], "spec.volumes": []}],
)
def test_empty_members_that_are_not_stored_are_no_new_generation(given):
    stored = create(POD).object
    after = update(changed(stored, given), stored).object
    assert after["metadata"]["generation"] == stored["metadata"]["generation"] == 1
    assert after == stored


def test_a_changed_effect_starts_the_taint_anew():
    stored = create(RULE).object
    moved = changed(stored, {"spec.taint.timeAdded": "2026-01-01T00:00:00Z"})
    same_time = changed(moved, {"spec.taint.effect": "NoExecute", "metadata.resourceVersion": "1"})
    assert update(same_time, moved).object["spec"]["taint"]["timeAdded"] == NOW
    other_value = changed(moved, {"spec.taint.value": "v", "metadata.resourceVersion": "1"})
    assert update(other_value, moved).object["spec"]["taint"]["timeAdded"] == "2026-01-01T00:00:00Z"


def test_some_kinds_want_the_resource_version():
    assert causes(update(changed(RULE, {"metadata.resourceVersion": None}), RULE)) == {
        "metadata.resourceVersion Invalid"
    }
    older = changed(RULE, {"metadata.resourceVersion": None, "apiVersion": "resource.k8s.io/v1beta2"})
    assert causes(update(older, RULE)) == set()
    assert causes(update(CLAIM, CLAIM)) == set()


def test_answers_come_in_the_version_that_was_asked_for():
    old = {**CLAIM, "apiVersion": "resource.k8s.io/v1beta1"}
    old["spec"] = {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}}
    accepted = create(old)
    assert accepted.object["apiVersion"] == "resource.k8s.io/v1"
    answer = intake.answer(accepted.object, catalogue.find(old["apiVersion"], old["kind"]))
    assert answer["spec"]["devices"]["requests"] == [
        {"name": "gpu", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    ]


def test_declarative_rules_report_in_the_shape_of_v1beta1():
    request = {"name": "gpu", "deviceClassName": "A", "allocationMode": "Some"}
    old = {**CLAIM, "apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": {"requests": [request]}}}
    assert causes(create(old)) == {
        "spec.devices.requests[0].allocationMode NotSupported",
        "spec.devices.requests[0].exactly.deviceClassName Invalid",
    }
    device = {"name": "a", "basic": {"taints": [{"key": "k", "effect": "X"}], "attributes": {"x": {}, "9": {"int": 1}}}}
    old_slice = changed({**SLICE, "apiVersion": "resource.k8s.io/v1beta1"}, {"spec.devices": [device]})
    assert causes(create(old_slice)) == {
        "spec.devices[0].basic.taints[0].effect NotSupported",
        "spec.devices[0].basic.attributes[x] Invalid",
        "spec.devices[0].attributes Invalid",
    }


class OnlyTrue(LengthOnly):
    """A checker that knows one expression, and one that costs too much."""

    def selector(self, expression, gates):
        return ExpressionReport(cost=2_000_000) if expression == "dear" else self.derived(expression, gates)

    def derived(self, expression, gates):
        return ExpressionReport(error=None if expression == "true" else "not true", cost=600_000)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", set()),
        ("false", {"spec.selectors[0].cel.expression Invalid"}),
        ("dear", {"spec.selectors[0].cel.expression Forbidden"}),
        ("x" * 10241, {"spec.selectors[0].cel.expression TooLong"}),
    ],
)
def test_expressions_go_to_the_checker_that_is_handed_in(expression, expected):
    document = changed(CLASS, {"spec.selectors.0.cel.expression": expression})
    assert {
        f"{e.field} {e.reason.removeprefix('FieldValue')}" for e in intake.check(document, expressions=OnlyTrue())
    } == expected


def test_derived_attributes_share_one_budget():
    attributes = [{"name": f"x.io/{name}", "expression": "true"} for name in "ab"]
    constraints = [{"matchAttribute": attribute["name"]} for attribute in attributes]
    document = changed(CLAIM, {"spec.devices.constraints": constraints})
    document["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] = attributes
    gates = DEFAULT_GATES.switched(DRADerivedAttributes=True)
    found = intake.check(document, gates=gates, expressions=OnlyTrue())
    assert [(error.field, error.reason) for error in found] == [("spec.devices", "FieldValueForbidden")]


def test_check_ignores_kinds_it_does_not_know():
    assert intake.check({"apiVersion": "example.com/v1", "kind": "Widget", "spec": 5}) == []


def test_the_message_names_kind_and_object():
    verdict = create(changed(SLICE, {"spec.driver": ""}))
    assert verdict.message == 'ResourceSlice.resource.k8s.io "s" is invalid: spec.driver: Required value'
    verdict = create(changed(POD, {"spec.containers": [], "spec.restartPolicy": "Maybe"}))
    assert verdict.message.startswith('Pod "p" is invalid: [spec.containers: Required value, ')


def test_pool_requests_have_no_status_until_they_are_answered():
    accepted = create(changed(POOL_REQUEST, {"status.poolCount": 3}))
    assert "status" not in accepted.object
    assert accepted.object["spec"]["limit"] == 100


def test_problems_have_a_limit():
    """An answer with all of them would be a hundred times as large as the object."""
    refusal = create({**POD, "spec": {"containers": [{}] * 20_000}})
    assert isinstance(refusal, Refusal)
    assert refusal.code == 422
    assert 1000 <= len(refusal.causes) < 1100
    assert len(refusal.message) < 200_000
