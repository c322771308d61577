"""Structural schemas: every value in an object has exactly one place where its type is given.

Paths name the schema's own members: `properties[spec].type`. The rules are those Kubernetes holds definitions to.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

from dray.api import errors, schema
from dray.api.errors import ErrorType, FieldError
from dray.api.repeats import repeats
from dray.cel import patterns
from dray.cel.patterns import PatternError
from dray.server.custom import defaults, schema_check
from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import NO_FIELD

Errors = Iterator[FieldError]

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_FORBIDDEN = ("$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTORS = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
_DEEPEST = 128
_TYPE = "apiextensions_v1.JSONSchemaProps"
_MAPS = ("properties", "patternProperties", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf")
_FILLED = ("required", "x-kubernetes-list-map-keys", "x-kubernetes-validations")


def check(schema: Schema, path: str) -> Errors:
    """Yields the errors of the schema of a kind."""
    kind = schema.get("type")
    if not kind:
        yield errors.required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield errors.invalid(f"{path}.type", kind, "must be object at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if set(metadata.get("properties") or {}) - {"name", "generateName"}:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield errors.forbidden(f"{path}.properties[metadata]", detail)
    yield from _check_level(schema, path)
    yield from _check_members(schema, path)


def _check_members(schema: Schema, path: str) -> Errors:
    for name, member in (schema.get("properties") or {}).items():
        yield from _check_inner(member, f"{path}.properties[{name}]", "must not be empty for specified object fields")
    others, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(others, dict):
        detail = "must not be empty for specified object fields"
        yield from _check_inner(others, f"{path}.additionalProperties", detail)
    if isinstance(items, dict):
        yield from _check_inner(items, f"{path}.items", "must not be empty for specified array items")


def _check_inner(schema: Schema, path: str, untyped: str) -> Errors:
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free:
        yield errors.required(f"{path}.type", untyped)
    yield from _check_level(schema, path)
    yield from _check_default(schema, path)
    yield from _check_members(schema, path)


def _check_level(schema: Schema, path: str) -> Errors:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield errors.not_supported(f"{path}.type", kind, _TYPES)
    for member in _FORBIDDEN:
        if schema.get(member):
            yield errors.forbidden(f"{path}.{member}", f"{member} is not supported")
    if schema.get("uniqueItems"):
        yield errors.forbidden(f"{path}.uniqueItems", "uniqueItems cannot be set to true")
    if schema.get("pattern"):
        yield from _check_pattern(schema["pattern"], f"{path}.pattern")
    others = schema.get("additionalProperties")
    if others is False:
        yield errors.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    elif others is not None and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield errors.forbidden(f"{path}.additionalProperties", detail)
    yield from _check_items_given(schema, path)
    yield from _check_extensions(schema, path)
    yield from _check_lists(schema, path)
    for junctor in _JUNCTORS:
        for index, part in enumerate(schema.get(junctor) or ()):
            yield from _check_junctor(part, f"{path}.{junctor}[{index}]", schema)
    if schema.get("not"):
        yield from _check_junctor(schema["not"], f"{path}.not", schema)


def _check_pattern(pattern: str, path: str) -> Errors:
    try:
        patterns.charged(pattern)
    except PatternError as error:
        yield errors.invalid(path, pattern, f"must be a valid regular expression, but isn't: {error}")


def _check_items_given(schema: Schema, path: str) -> Errors:
    items = schema.get("items")
    if isinstance(items, list):
        yield errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif schema.get("type") == "array" and items is None:
        yield errors.required(f"{path}.items", "must be specified")


def _check_extensions(schema: Schema, path: str) -> Errors:
    kind = schema.get("type")
    preserves = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserves is False:
        yield errors.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        if kind != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            yield errors.invalid(f"{path}.type", kind or "", detail)
        if not preserves and not schema.get("properties"):
            detail = "must not be empty if x-kubernetes-embedded-resource is true without preserved unknown fields"
            yield errors.required(f"{path}.properties", detail)
    if schema.get("x-kubernetes-int-or-string") and kind:
        detail = "must be empty if x-kubernetes-int-or-string is true"
        yield errors.invalid(f"{path}.type", kind, detail)
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in ("granular", "atomic"):
        yield errors.not_supported(f"{path}.x-kubernetes-map-type", map_type, ["atomic", "granular"])
    elif map_type is not None and kind != "object":
        yield errors.invalid(f"{path}.type", kind or "", "must be object if x-kubernetes-map-type is specified")


def _check_lists(schema: Schema, path: str) -> Errors:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield errors.not_supported(f"{path}.x-kubernetes-list-type", list_type, ["atomic", "map", "set"])
    elif list_type is not None and schema.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield errors.invalid(f"{path}.type", schema.get("type") or "", detail)
    if list_type != "map":
        if keys:
            detail = "must be map if x-kubernetes-list-map-keys is non-empty"
            yield errors.invalid(f"{path}.x-kubernetes-list-type", list_type, detail)
        return
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield errors.required(f"{path}.x-kubernetes-list-map-keys", detail)
        return
    items = schema.get("items")
    yield from _check_keys(items if isinstance(items, dict) else {}, keys, path)


def _check_keys(items: Schema, keys: list[str], path: str) -> Errors:
    if items.get("type") != "object":
        yield errors.invalid(
            f"{path}.items.type", items.get("type") or "", "must be object if x-kubernetes-list-type is map"
        )
        return
    properties = items.get("properties") or {}
    for index, (key, is_repeated) in enumerate(zip(keys, repeats(keys), strict=True)):
        at = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if is_repeated:
            yield errors.duplicate(at, key)
        elif key not in properties:
            yield errors.invalid(at, key, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield errors.invalid(f"{path}.items.properties[{key}].type", properties[key]["type"], detail)
        elif key not in (items.get("required") or ()) and "default" not in properties[key]:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield errors.required(f"{path}.items.properties[{key}].default", detail)


def _check_junctor(part: Schema, path: str, whole: Schema) -> Errors:
    """Checks a part of allOf, anyOf, oneOf or not: it may add rules, but no properties and no types."""
    int_or_string = whole.get("x-kubernetes-int-or-string") and part.get("type") in ("integer", "string")
    for member in _NOT_IN_JUNCTORS:
        if part.get(member) not in (None, "", False, []) and not (member == "type" and int_or_string):
            yield errors.forbidden(f"{path}.{member}", "must be undefined to be structural")
    properties = whole.get("properties") or {}
    for name, member in (part.get("properties") or {}).items():
        known = properties.get(name)
        if known is None and not isinstance(whole.get("additionalProperties"), dict):
            field = f"{path.rpartition('.')[0]}.properties[{name}]"
            yield errors.required(field, f"because it is defined in {path}.properties[{name}]")
        yield from _check_junctor(member, f"{path}.properties[{name}]", known or {})
    items = part.get("items")
    if isinstance(items, dict):
        known_items = whole.get("items")
        yield from _check_junctor(items, f"{path}.items", known_items if isinstance(known_items, dict) else {})


def _check_default(schema: Schema, path: str) -> Errors:
    if "default" not in schema or schema["default"] is None:
        return
    value: Any = deepcopy(schema["default"])
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    pruned, dropped = defaults.prune(value, schema, root=embedded)
    if dropped:
        yield errors.invalid(f"{path}.default", value, "must not have unknown fields")
        return
    try:
        defaults.fill(pruned, schema)
    except defaults.TooLarge:
        yield errors.invalid(f"{path}.default", NO_FIELD, f"must not grow beyond {defaults.MAX_BYTES} bytes")
        return
    try:
        found = list(schema_check.check(pruned, schema))
    except schema_check.TooMuchWork:
        yield errors.invalid(f"{path}.default", NO_FIELD, "takes too much work to check")
        return
    for error in found:
        where = f"{path}.default.{error.field}" if error.field != NO_FIELD else f"{path}.default"
        yield replace(error, field=where)


def check_shape(value: Any, path: str) -> Iterator[FieldError]:
    """Yields errors of members with wrong types; unknown members are ignored.

    The API leaves the types below `items` and `additionalProperties` open, because both may be more than a schema.
    """
    if _depth(value) > _DEEPEST:
        # Everything that processes a schema is recursive.
        yield errors.invalid(path, "", f"must have at most {_DEEPEST} levels of nesting")
    else:
        yield from _check_shape(value, path)


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        below = [
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        ]
        level, depth = list(chain.from_iterable(below)), depth + 1
    return depth


def _check_shape(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield errors.invalid(path, value, "must be a schema")
        return
    problems = [problem for problem in schema.read(value, _TYPE)[1] if problem.type is not ErrorType.UNKNOWN_FIELD]
    for problem in problems:
        yield errors.invalid(f"{path}.{problem.field}", "", problem.detail)
    if not problems:
        yield from _check_inner_shape(value, path)


def _check_inner_shape(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in _MAPS:
        for key, member in (value.get(name) or {}).items():
            yield from _check_known(member, f"{path}.{name}[{key}]")
    for name in _LISTS:
        for index, member in enumerate(value.get(name) or ()):
            yield from _check_known(member, f"{path}.{name}[{index}]")
    for name in _FILLED:
        if None in (value.get(name) or ()):
            yield errors.invalid(f"{path}.{name}", None, "must not hold null")
    if value.get("not") is not None:
        yield from _check_inner_shape(value["not"], f"{path}.not")
    others, items = value.get("additionalProperties"), value.get("items")
    if others is not None and not isinstance(others, bool):
        yield from _check_shape(others, f"{path}.additionalProperties")
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield from _check_shape(item, f"{path}.items[{index}]")
    elif items is not None:
        yield from _check_shape(items, f"{path}.items")


def _check_known(member: Any, path: str) -> Iterator[FieldError]:
    if member is None:
        yield errors.invalid(path, None, "must be a schema")
    else:
        yield from _check_inner_shape(member, path)
