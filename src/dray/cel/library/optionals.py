"""Optional values: `optional.of`, `.?field`, `orValue` and their kin."""

from __future__ import annotations

from typing import Final

from dray.cel import attributes
from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.values import NONE, Duration, Optional, Value

LIBRARY: Final = Library("optional")
LIBRARY.constants["optional_type"] = t.optional_of(t.DYN)


def _zero(value: Value) -> bool:
    if isinstance(value, Duration):
        return value.nanos == 0
    return value is None or (isinstance(value, bool | int | float | str | bytes | list | dict) and not value)


def _of_non_zero(value: Value) -> Optional:
    return NONE if _zero(value) else Optional(value)


def _has_value(value: Value) -> bool:
    if type(value) is Optional:
        return value is not NONE
    raise no_such_overload("hasValue")


def _value(value: Value) -> Value:
    if type(value) is not Optional:
        raise no_such_overload("value")
    if value is NONE:
        raise EvaluationError("optional.none() dereference")
    return value.value


def or_value(value: Value, default: Value) -> Value:
    if type(value) is Optional:
        return default if value is NONE else value.value
    raise no_such_overload("orValue")


def or_optional(value: Value, other: Value) -> Value:
    if type(value) is not Optional:
        raise no_such_overload("or")
    return other if value is NONE else value


LIBRARY.function("optional.of", Optional, "optional_of: (V) -> optional<V>")
LIBRARY.function("optional.ofNonZeroValue", _of_non_zero, "optional_ofNonZeroValue: (V) -> optional<V>")
LIBRARY.function("optional.none", lambda: NONE, "optional_none: () -> optional<V>")
LIBRARY.function("hasValue", _has_value, "optional_hasValue: optional<V>.() -> bool")
LIBRARY.function("value", _value, "optional_value: optional<V>.() -> V")
LIBRARY.function("or", or_optional, "optional_or_optional: optional<V>.(optional<V>) -> optional<V>")
LIBRARY.function("orValue", or_value, "optional_orValue_value: optional<V>.(V) -> V")
LIBRARY.function(
    "_[?_]",
    attributes.optional_get,
    "list_optindex_optional_int: (list<V>, int) -> optional<V>",
    "optional_list_optindex_optional_int: (optional<list<V>>, int) -> optional<V>",
    "map_optindex_optional_value: (map<K,V>, K) -> optional<V>",
    "optional_map_optindex_optional_value: (optional<map<K,V>>, K) -> optional<V>",
)
LIBRARY.function(
    "_[_]",
    attributes.index,
    "optional_list_index_int: (optional<list<V>>, int) -> optional<V>",
    "optional_map_index_value: (optional<map<K,V>>, K) -> optional<V>",
)


def _unwrap(values: Value) -> Value:
    if type(values) is not list:
        raise no_such_overload("optional.unwrap")
    return [value.value for value in values if type(value) is Optional and value is not NONE]


LIBRARY.function("optional.unwrap", _unwrap, "optional_unwrap: (list<optional<V>>) -> list<V>")
LIBRARY.function("unwrapOpt", _unwrap, "optional_unwrapOpt: list<optional<V>>.() -> list<V>")
