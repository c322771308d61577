"""Conversions between types: `int`, `uint`, `double`, `bool`, `string`, `bytes`, `dyn`, `type`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.library.moments import format_duration, format_timestamp
from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, TypeValue, Uint, Value, type_name

LIBRARY: Final = Library("conversions")

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_EXPONENT_FROM: Final = 6
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def _failure(value: Value, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _parse_integer(text: str, low: int, high: int, target: str) -> int:
    if len(text) > 64 or _INTEGER.fullmatch(text) is None or not low <= int(text) <= high:
        raise _failure(text, target)
    return int(text)


def to_int(value: Value) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is Uint:
        if value > INT_MAX:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is float:
        if math.isnan(value) or not INT_MIN < value < INT_MAX:
            raise EvaluationError("integer overflow")
        return int(value)
    if kind is str:
        return _parse_integer(value, INT_MIN, INT_MAX, "int")
    if kind is Timestamp:
        return int(value.nanos // 10**9)
    if kind is Duration:
        return int(value.nanos)
    raise no_such_overload("int")


def to_uint(value: Value) -> Uint:
    kind = type(value)
    if kind is Uint:
        return Uint(value)
    if kind is int:
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if kind is float:
        if math.isnan(value) or not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if kind is str:
        if value[:1] in "+-":
            raise _failure(value, "uint")
        return Uint(_parse_integer(value, 0, UINT_MAX, "uint"))
    raise no_such_overload("uint")


def to_double(value: Value) -> float:
    kind = type(value)
    if kind in (float, int, Uint):
        return float(value)
    if kind is str:
        if len(value) > 512 or _FLOAT.fullmatch(value) is None:
            raise _failure(value, "double")
        return float(value)
    raise no_such_overload("double")


def to_bool(value: Value) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise no_such_overload("bool")
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _failure(value, "bool")


def to_bytes(value: Value) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise no_such_overload("bytes")


def format_double(value: float) -> str:
    """Formats a double like Go, with the fewest digits: `1e+06`, `1.5`, `NaN`, `+Inf`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0"
    power = point - 1
    if power < -4 or power >= _EXPONENT_FROM:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return sign + digits + "0" * (point - len(digits))
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


_STRINGS: Final[dict[type, Callable[[Any], str]]] = {
    str: lambda value: str(value),
    bool: lambda value: "true" if value else "false",
    int: lambda value: str(value),
    Uint: lambda value: str(int(value)),
    float: format_double,
    bytes: _decode,
    Duration: format_duration,
    Timestamp: format_timestamp,
}


def register_string(kind: type, convert: Callable[[Any], str]) -> None:
    """Lets `string(x)` take values of a library's own type."""
    _STRINGS[kind] = convert


def to_string(value: Value) -> str:
    convert = _STRINGS.get(type(value))
    if convert is None:
        raise no_such_overload("string")
    return convert(value)


def to_type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


_names = {
    "int": "int64_to_int64:int uint64_to_int64:uint double_to_int64:double string_to_int64:string "
    "timestamp_to_int64:timestamp duration_to_int64:duration",
    "uint": "uint64_to_uint64:uint int64_to_uint64:int double_to_uint64:double string_to_uint64:string",
    "double": "double_to_double:double int64_to_double:int uint64_to_double:uint string_to_double:string",
    "bool": "bool_to_bool:bool string_to_bool:string",
    "bytes": "bytes_to_bytes:bytes string_to_bytes:string",
    "string": "string_to_string:string bool_to_string:bool int64_to_string:int uint64_to_string:uint "
    "double_to_string:double bytes_to_string:bytes timestamp_to_string:timestamp duration_to_string:duration "
    "ip_to_string:IP cidr_to_string:CIDR",
}
_implementations = (to_int, to_uint, to_double, to_bool, to_bytes, to_string)
for (_name, _overloads), _implementation in zip(_names.items(), _implementations, strict=True):
    _signatures = (f"{o.partition(':')[0]}: ({o.partition(':')[2]}) -> {_name}" for o in _overloads.split())
    LIBRARY.function(_name, _implementation, *_signatures)
LIBRARY.function("dyn", lambda value: value, "to_dyn: (A) -> dyn")
LIBRARY.function("type", to_type, "type: (A) -> type<A>")
