"""Documents to messages.

Each wire type is compiled on first use to a function of the document. What the document leaves out is left out, what it
has is written, zeros too, in the order of the numbers; keys of maps are sorted: one document gives one sequence of
bytes. Members that the type does not have are ignored.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from dray.api.objects import Object
from dray.api.protobuf.layout import Member, layout
from dray.api.protobuf.values import VALUES
from dray.api.protobuf.wire import BYTES, FIXED64, SMALL, VARINT, WireError, tag, varint

Put = Callable[[bytes], None]
# Writes a value, with the number of its field, piece by piece.
Writer = Callable[[Any, Put], None]
# Makes the content of a field of bytes.
Content = Callable[[Any], bytes]

_NUMBERS = frozenset({"int32", "int64", "bool"})
_SHORT = 64


def encode_message(document: Object, type_name: str) -> bytes:
    """Raises `WireError` for a document that is not one of the type."""
    try:
        return _message(type_name)(document)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise WireError(f"the document is not a {type_name}: {error}") from error


@cache
def _message(type_name: str) -> Content:
    return _fields(lambda: layout(type_name))


def _fields(members: Callable[[], Sequence[Member]]) -> Content:
    # A type may contain itself: its fields are compiled when it is first written.
    writers: list[tuple[str, Writer]] = []

    def write_fields(document: Any) -> bytes:
        if not writers:
            # Several threads may do it at once: the last one counts, and none adds to what another one made.
            writers[:] = [(member.name, _field(member)) for member in members()]
        pieces: list[bytes] = []
        put, get = pieces.append, document.get
        for name, write in writers:
            # The members of an inlined message are members of the document.
            value = get(name) if name else document
            if value is not None:
                write(value, put)
        return b"".join(pieces)

    return write_fields


def _field(member: Member) -> Writer:
    if member.parts:
        return _inlined(member)
    if member.mapped:
        return _map(member)
    one = _single(member.number, member.type)
    if not member.repeated:
        return one

    def write_list(value: Any, put: Put) -> None:
        for item in value:
            one(item, put)

    return write_list


def _inlined(member: Member) -> Writer:
    head, content = tag(member.number, BYTES), _fields(lambda: member.parts)

    def write_inlined(document: Any, put: Put) -> None:
        if data := content(document):
            put(head + varint(len(data)) + data)

    return write_inlined


def _map(member: Member) -> Writer:
    head = tag(member.number, BYTES)
    write_key, write_value = _single(1, "str"), _single(2, member.type)

    def write_map(value: Any, put: Put) -> None:
        for key in sorted(value):
            pieces: list[bytes] = []
            write_key(key, pieces.append)
            write_value(value[key], pieces.append)
            data = b"".join(pieces)
            put(head + varint(len(data)) + data)

    return write_map


def _single(number: int, type_name: str) -> Writer:
    if type_name in _NUMBERS:
        plain = tag(number, VARINT)
        return lambda value, put: put(plain + varint(int(value or 0)))
    if type_name == "float":
        double = tag(number, FIXED64)
        return lambda value, put: put(double + struct.pack("<d", value or 0))
    head, content = tag(number, BYTES), _content(type_name)

    def write_bytes(value: Any, put: Put) -> None:
        data = content(value) if value is not None else b""
        size = len(data)
        put(head + (SMALL[size] if size < 128 else varint(size)) + data)

    return write_bytes


def _content(type_name: str) -> Content:
    if type_name == "str":
        return str.encode
    if type_name == "bytes":
        return binascii.a2b_base64
    if type_name == "octets":
        return bytes
    return _value(type_name) if type_name in VALUES else _message(type_name)


@cache
def _value(type_name: str) -> Content:
    kind = VALUES[type_name]
    write_members = _fields(lambda: kind.members)

    def write_value(value: Any) -> bytes:
        return write_members(kind.to_members(value))

    if not kind.short:
        return write_value
    kept = lru_cache(maxsize=4096)(write_value)
    return lambda value: kept(value) if len(value) <= _SHORT else write_value(value)
