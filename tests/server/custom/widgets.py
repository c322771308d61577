"""A definition to test with, and its version."""

from copy import deepcopy
from typing import Any

from dray.api.objects import Object
from dray.server.custom import definitions
from dray.server.custom.definitions import CustomVersion


def by_name(**properties: Object) -> Object:
    """The schema of a list of items with a name, which is their key, and these properties."""
    items = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, **properties}}
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": items}


SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "parts": by_name(count={"type": "integer", "default": 1}),
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {"spec": SPEC, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}


def definition(schema: Object | None = None) -> Object:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": SCHEMA if schema is None else schema},
    }
    made: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [version],
        },
    }
    made = deepcopy(made)
    definitions.set_defaults(made)
    return made


def version(schema: Object | None = None) -> CustomVersion:
    return definitions.versions(definition(schema))[0]


def widget(name: str = "w", **members: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **members}
