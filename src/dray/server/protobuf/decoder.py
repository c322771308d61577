"""Messages into the documents that JSON would have given.

Bytes become base64, times RFC 3339, quantities and int-or-string what they stand for. A member that the table does not
name is an error: a client of a newer release must not lose what it said without being told. The tables hold no message
within itself, so depth is bounded by them, and time by the size of the input.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from dray.api.objects import Object
from dray.server.protobuf import wire
from dray.server.protobuf.messages import members
from dray.server.protobuf.wire import WireError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode_message(data: bytes, message: str) -> Object:
    """Raises `WireError` for anything that is not such a message."""
    known = members(message)
    document: Object = {}
    for number, wire_type, value in wire.fields(data):
        if number not in known:
            raise WireError(f"{message} has no member with number {number} that is known here; JSON can carry it")
        name, type_name = known[number]
        _put(document, name, type_name, wire_type, value)
    return document


def _put(document: Object, name: str, type_name: str, wire_type: int, value: int | bytes) -> None:
    if type_name.startswith("[]"):
        document.setdefault(name, []).append(_value(type_name[2:], wire_type, value))
    elif type_name.startswith("+"):
        document.update(decode_message(_bytes(wire_type, value), type_name[1:]))
    elif type_name.startswith("{}"):
        key, item = _entry(type_name[2:], wire_type, value)
        document.setdefault(name, {})[key] = item
    else:
        decoded = _value(type_name, wire_type, value)
        if decoded is not None:
            document[name] = decoded


def _entry(type_name: str, wire_type: int, value: int | bytes) -> tuple[str, Any]:
    key = ""
    item: Any = None
    for number, kind, content in wire.fields(_bytes(wire_type, value)):
        if number == 1:
            key = _text(_bytes(kind, content))
        elif number == 2:
            item = _value(type_name, kind, content)
    return key, item if item is not None else _value(type_name, wire.BYTES, b"")


def _value(type_name: str, wire_type: int, value: int | bytes) -> Any:
    numeric = _NUMBERS.get(type_name)
    if numeric is not None:
        if not isinstance(value, int):
            raise WireError(f"expected a number, found wire type {wire_type}")
        return numeric(value)
    data = _bytes(wire_type, value)
    convert = _TEXTS.get(type_name)
    return convert(data) if convert is not None else decode_message(data, type_name)


def _bytes(wire_type: int, value: int | bytes) -> bytes:
    if wire_type != wire.BYTES or not isinstance(value, bytes):
        raise WireError(f"expected bytes, found wire type {wire_type}")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError("text is not UTF-8") from error


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _numbers(data: bytes) -> dict[int, int | bytes]:
    """The fields of a small message, where the last of a number counts."""
    return {number: value for number, _, value in wire.fields(data)}


def _integer(value: int | bytes, bits: int) -> int:
    if not isinstance(value, int):
        raise WireError("expected a number")
    return wire.signed(value, bits)


def _moment(data: bytes, timespec: str) -> str | None:
    if not data:
        return None
    found = _numbers(data)
    seconds, nanos = _integer(found.get(1, 0), 64), _integer(found.get(2, 0), 32)
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise WireError("a time out of range") from error
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _quantity(data: bytes) -> str:
    value = _numbers(data).get(1, b"")
    return _text(_bytes(wire.BYTES, value)) or "0"


def _int_or_string(data: bytes) -> int | str:
    found = _numbers(data)
    if _integer(found.get(1, 0), 64) == 0:
        return _integer(found.get(2, 0), 32)
    return _text(_bytes(wire.BYTES, found.get(3, b"")))


def _raw(data: bytes) -> Any:
    """JSON that is carried as bytes in a message of its own."""
    content = _bytes(wire.BYTES, _numbers(data).get(1, b"{}"))
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise WireError("a raw member is not JSON") from error


def _strings(data: bytes) -> list[str]:
    return [_text(_bytes(kind, value)) for number, kind, value in wire.fields(data) if number == 1]


_NUMBERS: dict[str, Callable[[int], Any]] = {
    "int32": lambda value: wire.signed(value, 32),
    "int64": lambda value: wire.signed(value, 64),
    "bool": bool,
}
_TEXTS: dict[str, Callable[[bytes], Any]] = {
    "str": _text,
    "bytes": _base64,
    "time": lambda data: _moment(data, "seconds"),
    "microtime": lambda data: _moment(data, "microseconds"),
    "quantity": _quantity,
    "intstr": _int_or_string,
    "raw": _raw,
    "strings": _strings,
}
