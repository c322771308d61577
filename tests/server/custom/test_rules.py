"""Rules as expressions: at any place of a schema, about what is and what was."""

from copy import deepcopy
from typing import Any

import pytest

from dray.api.intake import Accepted, Place, Refusal
from dray.server.custom import definition_rules, objects

from .widgets import by_name, definition, version, widget

PLACE = Place("default", "w")


def schema(*rules: dict[str, Any], inner: dict[str, Any] | None = None) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "items": by_name(size={"type": "integer", **(inner or {})}),
    }
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def causes(verdict: Accepted | Refusal) -> list[tuple[str, str, str]]:
    if isinstance(verdict, Accepted):
        return []
    return [(error.field, error.reason, error.detail) for error in verdict.causes]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": "self.low < self.high"}, []),
        ({"rule": "self.low > self.high"}, [("spec", "FieldValueInvalid", "failed rule: self.low > self.high")]),
        ({"rule": "self.low > 5", "message": "too low"}, [("spec", "FieldValueInvalid", "too low")]),
        (
            {"rule": "self.low > 5", "message": "m", "fieldPath": ".low", "reason": "FieldValueForbidden"},
            [("spec.low", "FieldValueForbidden", "m")],
        ),
        ({"rule": "has(self.items) ? self.items.all(i, i.size > 0) : true"}, []),
        ({"rule": "oldSelf.low == self.low"}, []),
        ({"rule": "quantity('1Gi').isGreaterThan(quantity('1Mi'))"}, []),
    ],
)
def test_on_creation(rule: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    verdict = objects.create(widget(spec={"low": 1, "high": 2}), version(schema(rule)), PLACE)
    assert causes(verdict) == expected


@pytest.mark.parametrize(
    ("rule", "inner", "text"),
    [
        ({"rule": "self.low > 5", "message": "too low"}, None, "spec: Invalid value: too low"),
        ({"rule": "true"}, {"rule": "self > 5", "message": "low"}, "spec.items[0].size: Invalid value: 1: low"),
        (
            {"rule": "self.low > 5", "messageExpression": "'low is ' + string(self.low)"},
            None,
            "Invalid value: low is 1",
        ),
        ({"rule": "self.low > 5", "message": "m", "messageExpression": "self.nobody"}, None, "Invalid value: m"),
    ],
)
def test_what_is_shown_of_the_value(rule: dict[str, Any], inner: dict[str, Any] | None, text: str) -> None:
    served = version(schema(rule, inner={"x-kubernetes-validations": [inner]} if inner else None))
    spec = {"low": 1, "items": [{"name": "a", "size": 1}]}
    verdict = objects.create(widget(spec=spec), served, PLACE)
    assert isinstance(verdict, Refusal)
    assert text in str(verdict.causes[0])


@pytest.mark.parametrize("text", ["1 + 1", " ", "self."])
def test_a_definition_with_a_broken_message(text: str) -> None:
    [error] = definition_rules.check(definition(schema({"rule": "true", "messageExpression": text})))
    assert error.field.endswith("properties[spec].x-kubernetes-validations[0].messageExpression")


def test_what_fails_while_running_is_refused() -> None:
    verdict = objects.create(widget(spec={"low": 1}), version(schema({"rule": "self.high > 1"})), PLACE)
    assert [cause[:2] for cause in causes(verdict)] == [("spec", "FieldValueInvalid")]


def test_transitions_are_followed_item_by_item() -> None:
    served = version(schema(inner={"x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "shrinks"}]}))
    made = objects.create(widget(spec={"items": [{"name": "a", "size": 3}]}), served, PLACE)
    assert isinstance(made, Accepted)
    old = made.object
    old["metadata"].update(resourceVersion="1")
    new = deepcopy(old)
    new["spec"]["items"] = [{"name": "b", "size": 1}, {"name": "a", "size": 2}]
    assert causes(objects.update(new, old, served, PLACE)) == [("spec.items[1].size", "FieldValueInvalid", "shrinks")]
    new["spec"]["items"][1]["size"] = 4
    assert causes(objects.update(new, old, served, PLACE)) == []


def test_rules_wait_for_a_sound_object() -> None:
    verdict = objects.create(widget(spec={"low": "x"}), version(schema({"rule": "self.low > 0"})), PLACE)
    assert [cause[:2] for cause in causes(verdict)] == [
        ("spec.low", "FieldValueTypeInvalid"),
        ("<nil>", "FieldValueInvalid"),
    ]


@pytest.mark.parametrize("text", ["self.", "nobody == 1", "1 + 1", " "])
def test_a_definition_with_a_broken_rule(text: str) -> None:
    [error] = definition_rules.check(definition(schema({"rule": text})))
    assert error.field.endswith("properties[spec].x-kubernetes-validations[0].rule")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("self.nobody == 1", "undefined field 'nobody'"),
        ("self.low == 'one'", "found no matching overload for '_==_'"),
        ("self.items.all(i, i.weight > 0)", "undefined field 'weight'"),
        ("self.spec.low > 0", "undefined field 'spec'"),
        ("self.low", "must evaluate to bool"),
    ],
)
def test_rules_are_checked_against_the_schema(text: str, detail: str) -> None:
    [error] = definition_rules.check(definition(schema({"rule": text})))
    assert detail in error.detail


TYPED = {
    "type": "object",
    "properties": {
        "first-day": {"type": "string", "format": "date"},
        "until": {"type": "string", "format": "date-time"},
        "namespace": {"type": "string"},
        "every": {"type": "string", "format": "duration"},
        "blob": {"type": "string", "format": "byte"},
        "share": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
VALUES: dict[str, Any] = {
    "first-day": "2024-02-29",
    "until": "2025-01-01T00:00:00Z",
    "namespace": "team",
    "every": "90s",
    "blob": "aGVsbG8=",
    "share": 1,
    "port": 80,
    "labels": {"a-b": "c"},
    "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
}


@pytest.mark.parametrize(
    "text",
    [
        "self.first__dash__day < self.until",
        "self.until == timestamp('2025-01-01T00:00:00Z') && self.until.getFullYear() == 2025",
        "self.every == duration('1m30s')",
        "self.__namespace__ == 'team' && has(self.__namespace__)",
        "self.namespace == 'team' && has(self.namespace)",
        "self.?first__dash__day.hasValue()",
        "self.blob == b'hello'",
        "self.share == 1.0",
        "self.port == 80 || self.port == 'http'",
        "self.labels['a-b'] == 'c'",
        "self.template.metadata.name == 'p'",
    ],
)
def test_values_have_the_types_of_the_schema(text: str) -> None:
    spec = {**TYPED, "x-kubernetes-validations": [{"rule": text}]}
    ruled = {"type": "object", "properties": {"spec": spec}}
    assert definition_rules.check(definition(ruled)) == []
    assert causes(objects.create(widget(spec=VALUES), version(ruled), PLACE)) == []


def test_what_an_update_leaves_alone_is_not_judged_again() -> None:
    made = objects.create(widget(spec={"low": 1, "high": 2}), version(schema()), PLACE)
    assert isinstance(made, Accepted)
    old = made.object
    old["metadata"].update(resourceVersion="1")
    stricter = version(schema({"rule": "self.low > 5", "message": "too low"}))
    same = deepcopy(old)
    same["metadata"]["labels"] = {"a": "b"}
    assert causes(objects.update(same, old, stricter, PLACE)) == []
    other = deepcopy(old)
    other["spec"]["high"] = 3
    assert causes(objects.update(other, old, stricter, PLACE)) == [("spec", "FieldValueInvalid", "too low")]


def test_a_transition_that_knows_there_was_nothing() -> None:
    rule = {"rule": "!oldSelf.hasValue() || self.low >= oldSelf.value().low", "optionalOldSelf": True, "message": "no"}
    served = version(schema(rule))
    assert definition_rules.check(definition(schema(rule))) == []
    made = objects.create(widget(spec={"low": 3}), served, PLACE)
    assert isinstance(made, Accepted)
    old = made.object
    old["metadata"].update(resourceVersion="1")
    less = deepcopy(old)
    less["spec"]["low"] = 2
    assert causes(objects.update(less, old, served, PLACE)) == [("spec", "FieldValueInvalid", "no")]
    [error] = definition_rules.check(definition(schema({"rule": "true", "optionalOldSelf": True})))
    assert error.field.endswith("optionalOldSelf")
