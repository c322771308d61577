"""Rules as expressions: at any place of a schema, about what is and what was."""

from copy import deepcopy
from typing import Any

import pytest

from dray.api.intake import Accepted, Place, Refusal
from dray.server.custom import definition_rules, objects

from .widgets import definition, version, widget

PLACE = Place("default", "w")


def schema(*rules: dict[str, Any], inner: dict[str, Any] | None = None) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "size": {"type": "integer", **(inner or {})}},
            },
        },
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
