"""The types that rules of custom kinds are checked against, made from the schema they stand in.

An object with properties is a type of its own, whose fields are those properties; a map, list or scalar is what it is
in CEL. Text with the format of a time, a duration or bytes is such a value in an expression, so that values are
converted before a rule sees them. What a schema does not type cannot be named in a rule. A property whose name is a
keyword, such as `namespace`, may be written with or without underscores around it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from dray.cel import types as t
from dray.cel.environment import DEVICE, Environment
from dray.cel.errors import EvaluationError
from dray.cel.escaping import escape, is_keyword
from dray.cel.library.moments import parse_duration, parse_timestamp
from dray.cel.types import Type
from dray.server.custom.definitions import Schema

SELF: Final = "selfType"
_META: Final = "objectMeta"
_META_FIELDS: Final[Mapping[str, Type]] = {"name": t.STRING, "generateName": t.STRING}
_HEAD: Final[Mapping[str, Type]] = {
    "kind": t.STRING,
    "apiVersion": t.STRING,
    "metadata": Type("object", name=_META),
}
_SCALARS: Final = {"boolean": t.BOOL, "integer": t.INT, "number": t.DOUBLE, "string": t.STRING}
_FORMATS: Final = {"byte": t.BYTES, "date": t.TIMESTAMP, "date-time": t.TIMESTAMP, "duration": t.DURATION}


def environment(schema: Schema, *, is_root: bool, optional_old: bool = False) -> Environment:
    """Returns the environment of the rules of a schema: `self`, and `oldSelf`, which may be optional."""
    objects: dict[str, Mapping[str, Type]] = {_META: _META_FIELDS}
    own = _type(schema, SELF, objects, is_resource=is_root) or t.DYN
    old = t.optional_of(own) if optional_old else own
    return Environment("rule", {"self": own, "oldSelf": old}, DEVICE.functions, DEVICE.constants, objects, escaped=True)


def _type(
    schema: Schema, name: str, objects: dict[str, Mapping[str, Type]], *, is_resource: bool = False
) -> Type | None:
    """Returns the CEL type of a schema; None if expressions cannot name the value."""
    if schema.get("x-kubernetes-int-or-string"):
        return t.DYN
    kind = schema.get("type") or ""
    if kind == "array":
        items = schema.get("items")
        element = _type(items, f"{name}.@idx", objects, is_resource=_is_embedded(items)) if items else None
        return t.list_of(element) if element is not None else None
    if kind != "object":
        return _FORMATS.get(schema.get("format") or "", t.STRING) if kind == "string" else _SCALARS.get(kind)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        value = _type(others, f"{name}.@elem", objects, is_resource=_is_embedded(others))
        return t.map_of(t.STRING, value) if value is not None else None
    fields = dict(_HEAD) if is_resource else {}
    for member, inner in (schema.get("properties") or {}).items():
        if is_resource and member in _HEAD:
            continue
        written = escape(member)
        found = _type(inner, f"{name}.{written}", objects, is_resource=_is_embedded(inner)) if written else None
        if written and found is not None:
            fields[written] = found
            if is_keyword(member):
                fields[member] = found
    objects[name] = fields
    return Type("object", name=name)


def _is_embedded(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def is_converted(schema: Schema) -> bool:
    """Returns True if a value of the schema differs between JSON and CEL, such as a time."""
    if schema.get("type") == "string":
        return schema.get("format") in _FORMATS
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return schema.get("type") == "number" or any(is_converted(part) for part in inner if isinstance(part, dict))


def converted(value: Any, schema: Schema) -> Any:
    """Converts a value for expressions. Text that does not match its format stays text."""
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            name: converted(item, properties.get(name) or (others if isinstance(others, dict) else {}))
            for name, item in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [converted(item, items) for item in value]
    if isinstance(value, str) and schema.get("type") == "string" and schema.get("format") in _FORMATS:
        return _converted_text(value, schema["format"])
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _converted_text(value: str, form: str) -> Any:
    try:
        if form == "byte":
            return base64.b64decode(value, validate=True)
        if form == "duration":
            return parse_duration(value)
        return parse_timestamp(f"{value}T00:00:00Z" if form == "date" else value)
    except (EvaluationError, binascii.Error, ValueError):
        return value
