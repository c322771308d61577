"""Schemas of custom kinds in both versions: what is added, and what version 2 cannot say."""

import pytest

from dray.server.custom import definitions
from dray.server.custom_resource import CustomResource
from dray.server.openapi import custom
from tests.server.custom.widgets import definition

IDENTITY = {"apiVersion", "kind", "metadata"}


def both(properties, **root):
    """The schemas in version 3 and 2 of a kind with these properties."""
    schema = {"type": "object", "properties": properties, **root}
    versions = definitions.versions(definition(schema))
    resource = CustomResource(versions[0], versions)
    return custom.schema(resource), custom.schema_v2(resource)


def test_every_kind_has_the_members_of_an_object():
    for schema in both({"spec": {"type": "object", "description": "What is wanted."}}, description="A widget."):
        assert schema["properties"].keys() == {*IDENTITY, "spec"}
        assert schema["description"] == "A widget."
        assert "APIVersion defines" in schema["properties"]["apiVersion"]["description"]
        assert "Standard object's metadata" in schema["properties"]["metadata"]["description"]
        kind = {"group": "example.com", "kind": "Widget", "version": "v1"}
        assert schema["x-kubernetes-group-version-kind"] == [kind]


def test_where_the_whole_object_is_open_version_2_says_nothing():
    third, second = both({"a": {"type": "string"}}, **{"x-kubernetes-preserve-unknown-fields": True})
    assert (third["properties"].keys(), second.keys()) == (
        {*IDENTITY, "a"},
        {"type", "x-kubernetes-group-version-kind"},
    )


@pytest.mark.parametrize(
    ("given", "third", "second"),
    [
        # Alternatives and defaults.
        (
            {"type": "string", "default": "x", "oneOf": [{"format": "a"}], "not": {"enum": ["b"]}},
            {"type": "string", "default": "x", "oneOf": [{"format": "a"}], "not": {"enum": ["b"]}},
            {"type": "string"},
        ),
        # What may be null has no type, and nothing is said of what is in it.
        (
            {"type": "object", "nullable": True, "properties": {"b": {"type": "string"}}},
            {"type": "object", "nullable": True, "properties": {"b": {"type": "string"}}},
            {},
        ),
        # Nor of what may have any other members.
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"b": {"type": "string"}},
            },
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"b": {"type": "string"}},
            },
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "object"}},
            {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {"type": "object"}},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        # A number or a string.
        (
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"x-kubernetes-int-or-string": True},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "a"}]},
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"pattern": "a"}],
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}],
            },
            {"x-kubernetes-int-or-string": True},
        ),
        # Flags that are not set and lists without anything say nothing.
        (
            {"type": "string", "nullable": False, "enum": [], "x-kubernetes-preserve-unknown-fields": None},
            {"type": "string"},
            {"type": "string"},
        ),
        ({"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 0}),
    ],
)
def test_a_member(given, third, second):
    shown = both({"a": given})
    assert [schema["properties"]["a"] for schema in shown] == [third, second]


def test_what_may_be_null_is_not_required():
    inner = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
    }
    third, second = both({"spec": inner})
    assert third["properties"]["spec"]["required"] == ["a", "b"]
    assert second["properties"]["spec"]["required"] == ["b"]


def test_an_object_within_the_object():
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"]}
    for schema in both({"a": embedded}):
        assert schema["properties"]["a"]["properties"].keys() == IDENTITY
        assert schema["properties"]["a"]["required"] == ["kind", "apiVersion"]
    third, second = both({"a": {**embedded, "x-kubernetes-preserve-unknown-fields": True}})
    assert third["properties"]["a"]["properties"].keys() == IDENTITY
    assert "properties" not in second["properties"]["a"]


def test_fields_that_clients_select_by():
    made = definition({"type": "object", "properties": {"color": {"type": "string"}}})
    made["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".color"}]
    versions = definitions.versions(made)
    resource = CustomResource(versions[0], versions)
    for schema in (custom.schema(resource), custom.schema_v2(resource), custom.list_schema(resource, "one")):
        assert schema["x-kubernetes-selectable-fields"] == [{"fieldPath": "color"}]
