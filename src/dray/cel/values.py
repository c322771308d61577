"""Values at run time.

int, float, bool, str, bytes, None, list and dict are themselves; the rest have a class here or in `dray.api`.
Keys of maps are str, int, Uint and, because Python takes True for 1, `BoolKey` in place of bool.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

Value = Any

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer. Arithmetic on it goes through `operators`, never through Python's own."""

    __slots__ = ()


class BoolKey(Enum):
    FALSE = False
    TRUE = True


@dataclass(slots=True, unsafe_hash=True)
class TypeValue:
    """A type as a value: what `type(x)` and the names of types yield."""

    name: str

    def __repr__(self) -> str:
        return f"type({self.name})"


@dataclass(slots=True, order=True, unsafe_hash=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int

    def __repr__(self) -> str:
        return f"duration({self.nanos}ns)"


@dataclass(slots=True, order=True, unsafe_hash=True)
class Timestamp:
    """A moment in nanoseconds since 1970."""

    nanos: int

    def __repr__(self) -> str:
        return f"timestamp({self.nanos}ns)"


class Optional:
    """A value that may be absent; `NONE` is the absent one."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "optional.none()" if self is NONE else f"optional({self.value!r})"


NONE: Final = Optional(None)

_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    TypeValue: "type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
}


def register_type(python_type: type, name: str) -> None:
    """Libraries name the types of the values they bring."""
    _TYPE_NAMES[python_type] = name


def type_name(value: Value) -> str:
    name = _TYPE_NAMES.get(type(value))
    if name is None:
        name = next((n for t, n in _TYPE_NAMES.items() if isinstance(value, t)), "unknown")
    return name


def encode_key(key: Value) -> Value:
    return BoolKey(key) if type(key) is bool else key


def decode_key(key: Value) -> Value:
    return key.value if type(key) is BoolKey else key


def keys_of(mapping: dict[Value, Value]) -> list[Value]:
    return [decode_key(key) for key in mapping]
