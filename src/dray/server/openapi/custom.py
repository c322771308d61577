"""Schemas of custom kinds, as they are published.

In version 3 a kind has the schema of its definition, with the members that every object has and with those of embedded
objects; what may be a number or a string says so in the words of OpenAPI. Version 2 cannot say as much: alternatives
and defaults are left out, a value that may be null has no type, and where unknown members are kept nothing is said of
the known ones either, because clients would refuse all others.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object
from dray.server.openapi import schemas
from dray.server.openapi.descriptions import describe
from dray.server.resources import Resource

_JUNCTORS: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})
_FLAGS: Final = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "nullable",
        "uniqueItems",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_OBJECT_META: Final = schemas.component("meta_v1.ObjectMeta")
_LIST_META: Final = schemas.component("meta_v1.ListMeta")


def name(resource: Resource, kind: str) -> str:
    """Returns the schema name: `example.com/v1 Widget` → `com.example.v1.Widget`."""
    return ".".join((*reversed(resource.group.split(".")), resource.version, kind))


def schema(resource: Resource) -> Object:
    """Returns the schema of a kind for OpenAPI version 3."""
    found = _published(resource.custom_schema or {})
    found["type"] = "object"
    found["properties"] = {**found.get("properties", {}), **_identity(), "metadata": _metadata(_OBJECT_META)}
    return {**found, **_marks(resource, resource.kind)}


def schema_v2(resource: Resource) -> Object:
    """Returns the schema of a kind for version 2; its references are still those of version 3."""
    given = resource.custom_schema or {}
    if given.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object", **_marks(resource, resource.kind)}
    found = _reduced(_published(given, embedded=False))
    found["type"] = "object"
    found["properties"] = {**found.get("properties", {}), **_identity(), "metadata": _metadata(_OBJECT_META)}
    return {**found, **_marks(resource, resource.kind)}


def list_schema(resource: Resource, one: str) -> Object:
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_identity(),
            "items": {
                "description": f"List of {resource.plural}.",
                "type": "array",
                "items": schemas.reference(one),
            },
            "metadata": _metadata(_LIST_META),
        },
        **_marks(resource, resource.list_kind),
    }


def _identity() -> Object:
    """Returns the schemas of apiVersion and kind."""
    told = describe("core_v1.Pod").fields
    return {
        member: {"type": "string", **({"description": told[member]} if member in told else {})}
        for member in ("apiVersion", "kind")
    }


def _metadata(reference: str) -> Object:
    told = describe("core_v1.Pod" if reference == _OBJECT_META else "core_v1.PodList").fields.get("metadata")
    return {"allOf": [schemas.reference(reference)], **({"description": told} if told else {})}


def _marks(resource: Resource, kind: str) -> Object:
    found: Object = {
        "x-kubernetes-group-version-kind": [{"group": resource.group, "kind": kind, "version": resource.version}]
    }
    if resource.selectable_fields:
        paths = [{"fieldPath": path.removeprefix(".")} for path in resource.selectable_fields]
        found["x-kubernetes-selectable-fields"] = paths
    return found


def _published(given: Object, *, embedded: bool = True) -> Object:
    """Returns a copy of a schema without unset flags, empty lists and empty maps."""
    found: Object = {}
    for member, value in given.items():
        if member in _FLAGS:
            if value:
                found[member] = value
        elif member == "properties":
            if value:
                found[member] = {each: _published(inner, embedded=embedded) for each, inner in value.items()}
        elif member == "items" or (member in ("additionalProperties", "not") and isinstance(value, dict)):
            found[member] = _published(value, embedded=embedded)
        elif member in _JUNCTORS:
            if value:
                found[member] = [_published(inner, embedded=embedded) for inner in value]
        elif value is not None and not (value in ("", []) and member != "default"):
            found[member] = value
    if found.get("x-kubernetes-int-or-string"):
        _unfold(found)
    if embedded and found.get("x-kubernetes-embedded-resource"):
        _embed(found)
    return found


def _unfold(found: Object) -> None:
    """Describes an int-or-string as alternatives, if the schema has only Kubernetes' mark."""
    alternatives = found.get("anyOf")
    first = (found.get("allOf") or [{}])[0].get("anyOf")
    if _INT_OR_STRING in (_types(alternatives), _types(first)):
        return
    if alternatives is None:
        found["anyOf"] = _INT_OR_STRING
    else:
        found["allOf"] = [{"anyOf": _INT_OR_STRING}, *found.get("allOf", ())]


def _types(alternatives: Any) -> list[Object]:
    return [{"type": alternative.get("type")} for alternative in alternatives or ()]


def _embed(found: Object) -> None:
    """Adds the members of an object to the schema of an embedded object."""
    properties = {**_identity(), "metadata": _metadata(_OBJECT_META)}
    found["properties"] = {**found.get("properties", {}), **properties}
    required = list(found.get("required", ()))
    found["required"] = required + [member for member in ("kind", "apiVersion") if member not in required]


def _reduced(given: Object) -> Object:
    """Returns the part of a schema that version 2 can express."""
    found = {member: value for member, value in given.items() if member not in _JUNCTORS and member != "default"}
    kept = found.get("x-kubernetes-preserve-unknown-fields", False)
    nullable = found.pop("nullable", False)
    if nullable or kept:
        found.pop("items", None)
        found.pop("properties", None)
    if nullable or (kept and found.get("type") == "object") or (found.get("type") == "array" and "items" not in found):
        found.pop("type", None)
    _let_null(found)
    if isinstance(found.get("items"), dict):
        found["items"] = _reduced(found["items"])
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = _reduced(found["additionalProperties"])
    if "properties" in found:
        found["properties"] = {member: _reduced(inner) for member, inner in found["properties"].items()}
    if found.get("x-kubernetes-embedded-resource") and not kept:
        _embed(found)
    return found


def _let_null(found: Object) -> None:
    """Makes members that may be null optional."""
    required = found.get("required")
    if not required:
        return
    properties = found.get("properties", {})
    left = [member for member in required if not properties.get(member, {}).get("nullable")]
    others = found.get("additionalProperties")
    if not left or (isinstance(others, dict) and others.get("nullable")):
        del found["required"]
    else:
        found["required"] = left
