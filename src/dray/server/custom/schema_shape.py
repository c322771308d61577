"""Shape of schemas, checked before anything looks into one.

The types of the API leave open what stands below `items` and `additionalProperties`, as both may be more than a
schema. Here they are held to what they must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api import errors, schema
from dray.api.errors import ErrorType, FieldError

_TYPE = "apiextensions_v1.JSONSchemaProps"
_MAPS = ("properties", "patternProperties", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf")
_FILLED = ("required", "x-kubernetes-list-map-keys", "x-kubernetes-validations")


def check(value: Any, path: str) -> Iterator[FieldError]:
    """Members that are not of their types; unknown ones mean nothing and are let pass."""
    if not isinstance(value, dict):
        yield errors.invalid(path, value, "must be a schema")
        return
    problems = [problem for problem in schema.read(value, _TYPE)[1] if problem.type is not ErrorType.UNKNOWN_FIELD]
    for problem in problems:
        yield errors.invalid(f"{path}.{problem.field}", "", problem.detail)
    if not problems:
        yield from _check_inner(value, path)


def _check_inner(value: dict[str, Any], path: str) -> Iterator[FieldError]:
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
        yield from _check_inner(value["not"], f"{path}.not")
    others, items = value.get("additionalProperties"), value.get("items")
    if others is not None and not isinstance(others, bool):
        yield from check(others, f"{path}.additionalProperties")
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield from check(item, f"{path}.items[{index}]")
    elif items is not None:
        yield from check(items, f"{path}.items")


def _check_known(member: Any, path: str) -> Iterator[FieldError]:
    if member is None:
        yield errors.invalid(path, None, "must be a schema")
    else:
        yield from _check_inner(member, path)
