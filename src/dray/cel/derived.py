"""The result of a derived attribute's expression as an attribute of the API."""

from __future__ import annotations

from typing import Any, Final

from dray.api.semver import Semver
from dray.cel.errors import EvaluationError
from dray.cel.values import Value, type_name

_FIELDS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "version"}


def attribute_of(value: Value) -> dict[str, Any]:
    """`{"int": 3}` or `{"strings": [...]}`; an empty list has no value at all. Raises EvaluationError."""
    if not isinstance(value, list):
        return {_field(value): _plain(value)}
    if not value:
        return {}
    field = _field(value[0])
    for position, element in enumerate(value):
        if _FIELDS.get(type(element)) != field:
            wanted, found = type_name(value[0]), type_name(element)
            raise EvaluationError(f"expected list element at index {position} to be {wanted}, got {found}")
    return {f"{field}s": [_plain(element) for element in value]}


def _field(value: Value) -> str:
    field = _FIELDS.get(type(value))
    if field is None:
        raise EvaluationError(f"a value of type {type_name(value)} cannot be an attribute")
    return field


def _plain(value: Value) -> Value:
    return str(value) if isinstance(value, Semver) else value
