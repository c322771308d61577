"""Messages to documents.

A document is what JSON would have given: bytes are base64, times RFC 3339, and a zero stands in it only where JSON
would have it. Fields that the type does not have are dropped, a field that comes twice counts the last time, messages
that come in parts are merged, as Kubernetes does all that. Depth and the number of values are bounded, and so is
memory.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from dray.api.objects import Object
from dray.api.protobuf.layout import Member, layout
from dray.api.protobuf.values import VALUES
from dray.api.protobuf.wire import BYTES, FIXED64, VARINT, WireError, read_field, read_varint, signed

MAX_DEPTH = 300
MAX_VALUES = 500_000
# From here on numbers are written with an exponent.
_LARGEST_PLAIN = 1e21


class _Reading:
    """The remaining limits of decoding one message: depth and number of values."""

    __slots__ = ("depth", "left")

    def __init__(self) -> None:
        self.depth = MAX_DEPTH
        self.left = MAX_VALUES

    def spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise WireError(f"more than {MAX_VALUES} values")


# Reads the content of a field.
Read = Callable[[int, int | bytes, _Reading], Any]
# Puts what it reads into the document.
Put = Callable[[Object, int, int | bytes, _Reading], None]
Fields = dict[int, tuple[str, Put]]


def decode_message(data: bytes, type_name: str) -> Object:
    """Raises `WireError` for anything that is not such a message."""
    document: Object = {}
    _read_into(document, data, _message(type_name), _Reading())
    return document


def _read_into(document: Object, data: bytes, fields: Fields, reading: _Reading) -> None:
    reading.depth -= 1
    if reading.depth < 0:
        raise WireError(f"more than {MAX_DEPTH} messages within each other")
    at, end = 0, len(data)
    value: int | bytes
    while at < end:
        reading.left -= 1
        if reading.left < 0:
            reading.spend(0)
        # Nearly all fields are bytes, and numbers and lengths of one byte: read here, half of the time is saved.
        head = data[at]
        if head & 0x87 == BYTES and at + 1 < end and data[at + 1] < 128:
            number, wire_type, start = head >> 3, BYTES, at + 2
            at = start + data[at + 1]
            value = data[start:at]
            if at > end or not number:
                raise WireError("unexpected end of the message" if number else "illegal field number 0")
        else:
            number, wire_type, value, at = read_field(data, at)
        field = fields.get(number)
        if field is None:
            continue
        name, put = field
        try:
            put(document, wire_type, value, reading)
        except WireError as error:
            error.path = f".{name}{error.path}"
            raise
    reading.depth += 1


@cache
def _message(type_name: str) -> Fields:
    fields: Fields = {}
    _compile(fields, layout(type_name))
    return fields


def _compile(fields: Fields, members: Sequence[Member]) -> None:
    fields.update((member.number, (member.name, _field(member))) for member in members)


def _field(member: Member) -> Put:
    if member.parts:
        return _inlined(member)
    if member.mapped:
        return _map(member)
    if member.repeated:
        return _list(member)
    if _is_message(member.type):
        return _merged(member)
    if member.type == "str":
        return _string(member)
    name, read, keep = member.name, _reader(member.type), member.keep or member.type not in _PLAIN

    def put_value(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        found = read(wire_type, value, reading)
        if found or (keep and found is not None):
            document[name] = found
        else:
            document.pop(name, None)

    return put_value


def _string(member: Member) -> Put:
    """Returns a setter for string fields; a faster path, as most values are strings."""
    name, keep = member.name, member.keep

    def put_string(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        if value or keep:
            document[name] = _text(wire_type, value, reading)
        else:
            _bytes(wire_type, value)
            document.pop(name, None)

    return put_string


def _inlined(member: Member) -> Put:
    fields: Fields = {}
    _compile(fields, member.parts)

    def put_inlined(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        _read_into(document, _bytes(wire_type, value), fields, reading)

    return put_inlined


def _merged(member: Member) -> Put:
    name, type_name = member.name, member.type

    def put_message(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        inner = document.setdefault(name, {})
        _read_into(inner, _bytes(wire_type, value), _message(type_name), reading)

    return put_message


def _list(member: Member) -> Put:
    name, read, packed = member.name, _reader(member.type), member.type in _NUMBERS

    def put_item(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        items = document.setdefault(name, [])
        if not packed or isinstance(value, int):
            items.append(read(wire_type, value, reading))
            return
        data, at = _bytes(wire_type, value), 0
        while at < len(data):
            number, at = read_varint(data, at)
            reading.spend(1)
            items.append(read(VARINT, number, reading))

    return put_item


def _map(member: Member) -> Put:
    name, zero = member.name, _zero(member.type)
    fields: Fields = {}
    _compile(fields, (Member(1, "key", type="str", keep=True), Member(2, "value", type=member.type, keep=True)))

    def put_entry(document: Object, wire_type: int, value: int | bytes, reading: _Reading) -> None:
        entry: Object = {}
        _read_into(entry, _bytes(wire_type, value), fields, reading)
        found = entry["value"] if "value" in entry else zero()
        document.setdefault(name, {})[entry.get("key", "")] = found

    return put_entry


def _zero(type_name: str) -> Callable[[], Any]:
    if type_name in VALUES:
        return lambda: VALUES[type_name].from_members({})
    return {"str": str, "bytes": str, "bool": bool, "int32": int, "int64": int, "float": float}.get(type_name, dict)


def _is_message(type_name: str) -> bool:
    return type_name not in VALUES and type_name not in _PLAIN


def _reader(type_name: str) -> Read:
    if type_name in _PLAIN:
        return _PLAIN[type_name]
    if type_name in VALUES:
        return _value(type_name)

    def read_message(wire_type: int, value: int | bytes, reading: _Reading) -> Object:
        document: Object = {}
        _read_into(document, _bytes(wire_type, value), _message(type_name), reading)
        return document

    return read_message


def _value(type_name: str) -> Read:
    kind = VALUES[type_name]
    # Compiled when it is first read: a JSON schema contains these values.
    fields: Fields = {}

    def read_value(wire_type: int, value: int | bytes, reading: _Reading) -> Any:
        if not fields:
            _compile(fields, kind.members)
        members: Object = {}
        _read_into(members, _bytes(wire_type, value), fields, reading)
        return kind.from_members(members)

    return read_value


def _bytes(wire_type: int, value: int | bytes) -> bytes:
    if wire_type != BYTES or isinstance(value, int):
        raise WireError(f"wrong wire type {wire_type}, expected {BYTES}")
    return value


def _text(wire_type: int, value: int | bytes, reading: _Reading) -> str:
    if wire_type != BYTES or isinstance(value, int):
        raise WireError(f"wrong wire type {wire_type}, expected {BYTES}")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise WireError("the text is not UTF-8") from error


def _number(wire_type: int, value: int | bytes) -> int:
    if not isinstance(value, int):
        raise WireError(f"wrong wire type {wire_type}, expected {VARINT}")
    return value


def _double(wire_type: int, value: int | bytes, reading: _Reading) -> int | float:
    if wire_type != FIXED64 or isinstance(value, int):
        raise WireError(f"wrong wire type {wire_type}, expected {FIXED64}")
    (found,) = struct.unpack("<d", value)
    if not math.isfinite(found):
        raise WireError("the number is not finite, which JSON cannot write")
    # As JSON writes it: a whole number without a point.
    return int(found) if found.is_integer() and abs(found) < _LARGEST_PLAIN else float(found)


_NUMBERS = frozenset({"int32", "int64", "bool"})
_PLAIN: dict[str, Read] = {
    "str": _text,
    "bytes": lambda wire_type, value, reading: binascii.b2a_base64(_bytes(wire_type, value), newline=False).decode(),
    "octets": lambda wire_type, value, reading: _bytes(wire_type, value),
    "bool": lambda wire_type, value, reading: _number(wire_type, value) != 0,
    "int32": lambda wire_type, value, reading: signed(_number(wire_type, value), 32),
    "int64": lambda wire_type, value, reading: signed(_number(wire_type, value), 64),
    "float": _double,
}
