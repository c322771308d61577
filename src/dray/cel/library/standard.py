"""The operators and functions every CEL environment has."""

from __future__ import annotations

from typing import Final

from dray.cel import attributes, operators
from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.values import Value, encode_key

LIBRARY: Final = Library("standard")

for _type in (t.BOOL, t.INT, t.UINT, t.DOUBLE, t.STRING, t.BYTES, t.NULL, t.DURATION, t.TIMESTAMP):
    LIBRARY.constants[_type.name] = _type
LIBRARY.constants["list"] = t.list_of(t.DYN)
LIBRARY.constants["map"] = t.map_of(t.DYN, t.DYN)
LIBRARY.constants["type"] = t.type_of(t.DYN)

_ORDERED = ("bool", "string", "bytes", "timestamp", "duration", "int", "uint", "double")
_WIRE = {"int": "int64", "uint": "uint64"}


def _order_signatures(name: str) -> list[str]:
    same = [f"{name}_{_WIRE.get(kind, kind)}: ({kind}, {kind}) -> bool" for kind in _ORDERED]
    numbers = ("int", "uint", "double")
    mixed = [
        f"{name}_{_WIRE.get(one, one)}_{_WIRE.get(other, other)}: ({one}, {other}) -> bool"
        for one in numbers
        for other in numbers
        if one != other
    ]
    return same + mixed


def _arithmetic_signatures(name: str, *kinds: str) -> list[str]:
    return [f"{name}_{_WIRE.get(kind, kind)}: ({kind}, {kind}) -> {kind}" for kind in kinds]


def _starts_with(value: Value, prefix: Value) -> bool:
    if type(value) is str and type(prefix) is str:
        return value.startswith(prefix)
    raise no_such_overload("startsWith")


def _ends_with(value: Value, suffix: Value) -> bool:
    if type(value) is str and type(suffix) is str:
        return value.endswith(suffix)
    raise no_such_overload("endsWith")


def _contains(value: Value, part: Value) -> bool:
    if type(value) is str and type(part) is str:
        return part in value
    raise no_such_overload("contains")


def _not_strictly_false(value: Value) -> bool:
    return value is not False


def map_insert(mapping: Value, *entry: Value) -> Value:
    """The map with one entry more, in place: only loops that own the map call this."""
    if len(entry) == 1 and isinstance(entry[0], dict):
        pairs = list(entry[0].items())
    elif len(entry) == 2:
        pairs = [(encode_key(entry[0]), entry[1])]
    else:
        raise no_such_overload("cel.@mapInsert")
    for key, value in pairs:
        if key in mapping:
            raise EvaluationError(f"insert failed: key {operators.show_key(key)} already exists")
        mapping[key] = value
    return mapping


def _unreachable(*_: Value) -> Value:
    raise AssertionError("compiled inline")


_f = LIBRARY.function
_f("_&&_", _unreachable, "logical_and: (bool, bool) -> bool")
_f("_||_", _unreachable, "logical_or: (bool, bool) -> bool")
_f("_?_:_", _unreachable, "conditional: (bool, A, A) -> A")
_f("!_", operators.invert, "logical_not: (bool) -> bool")
_f("@not_strictly_false", _not_strictly_false, "not_strictly_false: (bool) -> bool")
_f("_==_", operators.equals, "equals: (A, A) -> bool")
_f("_!=_", operators.differs, "not_equals: (A, A) -> bool")
_f("_<_", operators.less, *_order_signatures("less"))
_f("_<=_", operators.less_equal, *_order_signatures("less_equals"))
_f("_>_", operators.greater, *_order_signatures("greater"))
_f("_>=_", operators.greater_equal, *_order_signatures("greater_equals"))
_f(
    "_+_",
    operators.add,
    "add_bytes: (bytes, bytes) -> bytes",
    "add_double: (double, double) -> double",
    "add_duration_duration: (duration, duration) -> duration",
    "add_duration_timestamp: (duration, timestamp) -> timestamp",
    "add_timestamp_duration: (timestamp, duration) -> timestamp",
    "add_int64: (int, int) -> int",
    "add_list: (list<A>, list<A>) -> list<A>",
    "add_string: (string, string) -> string",
    "add_uint64: (uint, uint) -> uint",
)
_f(
    "_-_",
    operators.subtract,
    *_arithmetic_signatures("subtract", "double", "int", "uint"),
    "subtract_duration_duration: (duration, duration) -> duration",
    "subtract_timestamp_duration: (timestamp, duration) -> timestamp",
    "subtract_timestamp_timestamp: (timestamp, timestamp) -> duration",
)
_f("_*_", operators.multiply, *_arithmetic_signatures("multiply", "double", "int", "uint"))
_f("_/_", operators.divide, *_arithmetic_signatures("divide", "double", "int", "uint"))
_f("_%_", operators.modulo, *_arithmetic_signatures("modulo", "int", "uint"))
_f(
    "-_",
    operators.negate,
    "negate_double: (double) -> double",
    "negate_int64: (int) -> int",
)
_f("_[_]", attributes.index, "index_list: (list<A>, int) -> A", "index_map: (map<K,V>, K) -> V")
_f("@in", operators.contains, "in_list: (A, list<A>) -> bool", "in_map: (A, map<A,V>) -> bool")
_sized = ("string", "bytes", "list<A>", "map<A,B>")
_f(
    "size",
    operators.size,
    *(f"size_{s.partition('<')[0]}: ({s}) -> int" for s in _sized),
    *(f"{s.partition('<')[0]}_size: {s}.() -> int" for s in _sized),
)
_f("startsWith", _starts_with, "starts_with_string: string.(string) -> bool")
_f("endsWith", _ends_with, "ends_with_string: string.(string) -> bool")
_f("contains", _contains, "contains_string: string.(string) -> bool")
_f(
    "cel.@mapInsert",
    map_insert,
    "@mapInsert_map_key_value: (map<K,V>, K, V) -> map<K,V>",
    "@mapInsert_map_map: (map<K,V>, map<K,V>) -> map<K,V>",
)
