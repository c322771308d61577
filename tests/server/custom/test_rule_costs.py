"""What rules may cost: estimated when a kind is defined."""

from typing import Any

import pytest

from dray.server.custom import definition_rules

from .widgets import definition

TEXT: dict[str, Any] = {"type": "string"}
SHORT: dict[str, Any] = {"type": "string", "maxLength": 20}
NESTED = "self.all(a, self.all(b, self.all(c, a == b || b == c)))"
PAIRS = "self.all(a, self.exists_one(b, a == b))"


def ruled(schema: dict[str, Any], rule: str) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


def items(inner: dict[str, Any], **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": inner, **limits}


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


@pytest.mark.parametrize(
    "member",
    [
        ruled(items(SHORT, maxItems=100), PAIRS),
        ruled(items(SHORT, maxItems=10), NESTED),
        ruled({"type": "integer"}, "self > 0 && self < 100"),
        ruled(TEXT, "self.startsWith('a') || self.size() > 3"),
        ruled(items({"type": "integer"}), "self.size() < 5 || self.all(x, x > 0)"),
        ruled({"type": "object", "additionalProperties": SHORT, "maxProperties": 50}, "self.all(k, self[k] != 'x')"),
        ruled(
            {"type": "object", "additionalProperties": SHORT, "maxProperties": 16}, "self.all(k, k.matches('^[a-z]+$'))"
        ),
        ruled({"type": "object", "additionalProperties": TEXT}, "self.all(k, k.split('/')[0].size() < 253)"),
        items(ruled(SHORT, "self.matches('^[a-z]+$')"), maxItems=100),
        ruled(
            {"type": "object", "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}}},
            "!has(self.low) || self.low <= self.high && self.low + self.high < 100",
        ),
        ruled({"type": "string", "enum": ["a", "b"]}, "self == oldSelf || self in ['a', 'b']"),
    ],
)
def test_what_stays_within_the_limit(member: dict[str, Any]) -> None:
    assert definition_rules.check(definition(spec(member=member))) == []


@pytest.mark.parametrize(
    "member",
    [
        ruled(items(TEXT), NESTED),
        ruled(items(TEXT), PAIRS),
        ruled(items(SHORT, maxItems=1000), NESTED),
        items(items(ruled(TEXT, "self.matches('^[a-z]+$')"))),
        ruled({"type": "object", "additionalProperties": TEXT}, "self.all(a, self.all(b, self[a] == self[b]))"),
    ],
)
def test_what_may_cost_too_much_is_refused(member: dict[str, Any]) -> None:
    found = definition_rules.check(definition(spec(member=member)))
    assert found
    assert found[0].field.endswith("x-kubernetes-validations[0].rule")
    assert found[0].detail.startswith("estimated rule cost exceeds budget by factor of ")
    assert found[0].reason == "FieldValueForbidden"


@pytest.mark.parametrize("metadata", [{"type": "object"}, {"type": "object", "properties": {"name": TEXT}}])
def test_names_are_short(metadata: dict[str, Any]) -> None:
    root = ruled({"type": "object", "properties": {"metadata": metadata}}, "self.metadata.name.matches('^[a-z.]+$')")
    listed = {**root, "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert definition_rules.check(definition({**root, **spec(member=items(listed, maxItems=100))})) == []


def test_all_rules_together() -> None:
    members = {f"m{index}": ruled(items(SHORT, maxItems=800), PAIRS) for index in range(30)}
    found = definition_rules.check(definition(spec(**members)))
    assert [error.detail.partition(" exceeds")[0] for error in found] == [
        "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    ]


def test_what_was_accepted_once_is_not_judged_again() -> None:
    old = definition(spec(member=ruled(items(TEXT), NESTED)))
    assert definition_rules.check_update(old, old) == []
    assert definition_rules.check_update(definition(spec(other=TEXT, member=ruled(items(TEXT), NESTED))), old)
