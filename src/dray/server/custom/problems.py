"""Errors that only custom kinds have, beside those of the API."""

from __future__ import annotations

from typing import Any

from dray.api.errors import ErrorType, FieldError

# The field of an error that concerns no field in particular.
NO_FIELD = "<nil>"


def wrong_type(path: str, value: Any, expected: str) -> FieldError:
    found = type_of(value)
    detail = f'{path or "."} in body must be of type {expected}: "{found}"'
    return FieldError(ErrorType.TYPE_INVALID, path or NO_FIELD, detail, found if value is None else value)


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "string")
