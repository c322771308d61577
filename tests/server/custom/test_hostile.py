"""Definitions and objects of any shape are accepted or refused, and nothing else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api import schema
from dray.api.intake import Accepted, Place, Refusal
from dray.server.custom import definition_rules, definitions, objects, schema_check

from .widgets import definition, version, widget

_leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("a(x.", max_size=3)
_NAMES = (
    "type properties items additionalProperties required enum default pattern format nullable allOf anyOf oneOf not "
    "minimum maxLength x-kubernetes-list-type x-kubernetes-list-map-keys x-kubernetes-int-or-string "
    "x-kubernetes-preserve-unknown-fields x-kubernetes-embedded-resource x-kubernetes-validations rule name spec a"
)
_names = st.sampled_from(_NAMES.split())
_values = st.recursive(
    _leaves | st.sampled_from(["object", "array", "string", "integer", "map", "set", "self.a > 1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=5),
    max_leaves=14,
)
_schemas = st.dictionaries(_names, _values, max_size=6)
_typed = st.builds(
    lambda inner, spec: {
        "type": "object",
        "properties": {"spec": {"type": "object", **spec}, "a": {"type": "array", "items": inner}},
    },
    _schemas,
    _schemas,
)


@settings(deadline=None, max_examples=300)
@given(_schemas | _typed, _values)
def test_any_schema(given_schema: dict[str, Any], value: Any) -> None:
    made = definition(given_schema)
    read, problems = schema.read(made, "apiextensions_v1.CustomResourceDefinition")
    if any(problem.type.value == "WrongType" for problem in problems):
        return
    if not definition_rules.check(read):
        served = definitions.versions(read)[0]
        document = objects.prune(widget(spec=value, a=[value]), served)
        assert isinstance(objects.create(document, served, Place("default")), (Accepted, Refusal))


def of_items(items: dict[str, Any]) -> definitions.CustomVersion:
    made = definition({"type": "object", "properties": {"spec": {"type": "array", "items": items}}})
    read, problems = schema.read(made, "apiextensions_v1.CustomResourceDefinition")
    assert not problems
    assert not definition_rules.check(read)
    return definitions.versions(read)[0]


def test_defaults_that_multiply() -> None:
    served = of_items({"type": "object", "properties": {"a": {"type": "string", "default": "x" * 20_000}}})
    verdict = objects.create(widget(spec=[{}] * 50_000), served, Place("default"))
    assert isinstance(verdict, Refusal)
    assert verdict.code == 413
    assert isinstance(objects.create(widget(spec=[{}] * 50), served, Place("default")), Accepted)


def test_many_items_and_many_alternatives() -> None:
    served = of_items({"type": "integer", "anyOf": [{"minimum": 1000 + number} for number in range(200)]})
    verdict = objects.create(widget(spec=[1] * 5_000), served, Place("default"))
    assert isinstance(verdict, Refusal)
    assert len(verdict.errors) == 100
    assert isinstance(objects.create(widget(spec=[2000] * 5_000), served, Place("default")), Accepted)


def test_the_effort_that_a_schema_takes() -> None:
    choice = {"anyOf": [{"minimum": 1}, {"items": {"oneOf": [{}, {}, {}]}}]}
    assert schema_check.effort({"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {}}}}) == 1
    assert schema_check.effort({"items": choice}) == 1 + 1 + 4
    assert schema_check.effort({"not": {}, "allOf": [{}, {}], "properties": {"a": choice}}) == 6 + 3


def test_alternatives_times_items_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "MAX_WORK", 10_000)
    served = of_items({"type": "integer", "anyOf": [{"minimum": 1000 - number} for number in range(200)]})
    assert isinstance(objects.create(widget(spec=[801] * 40), served, Place("default")), Accepted)
    verdict = objects.create(widget(spec=[801] * 60), served, Place("default"))
    assert isinstance(verdict, Refusal)
    assert "too much work" in verdict.message


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["spec", "metadata", "status", "apiVersion", "kind", "x"]), _values), _values)
def test_any_object(document: dict[str, Any], old_spec: Any) -> None:
    served = version()
    assert isinstance(objects.create(document, served, Place("default")), (Accepted, Refusal))
    old = widget(spec=old_spec)
    assert isinstance(objects.update(document, old, served, Place("default", "w")), (Accepted, Refusal))
    assert isinstance(objects.update(document, old, served, Place("default", "w"), "status"), (Accepted, Refusal))
