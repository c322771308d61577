"""Writes messages from their JSON form, by the table that they are read with: the other half of the decoder."""

import base64
from datetime import UTC, datetime
from typing import Any

import msgspec

from dray.server.protobuf.envelope import MAGIC
from dray.server.protobuf.messages import members


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(at: int, value: int) -> bytes:
    return varint(at << 3) + varint(value)


def message(document: dict[str, Any], name: str) -> bytes:
    out = b""
    for at, (member, type_name) in members(name).items():
        if type_name.startswith("+"):
            inner = message(document, type_name[1:])
            out += field(at, inner) if inner else b""
            continue
        if member not in document:
            continue
        value = document[member]
        if type_name.startswith("[]"):
            out += b"".join(_value(at, item, type_name[2:]) for item in value)
        elif type_name.startswith("{}"):
            entries = (_value(1, key, "str") + _value(2, item, type_name[2:]) for key, item in value.items())
            out += b"".join(field(at, entry) for entry in entries)
        else:
            out += _value(at, value, type_name)
    return out


def _value(at: int, value: Any, type_name: str) -> bytes:
    if type_name in ("int32", "int64", "bool"):
        return number(at, int(value))
    return field(at, _content(value, type_name))


def _content(value: Any, type_name: str) -> bytes:
    match type_name:
        case "str":
            return str(value).encode()
        case "bytes":
            return base64.b64decode(value)
        case "time" | "microtime":
            passed = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)
            return number(1, passed.days * 86400 + passed.seconds) + number(2, passed.microseconds * 1000)
        case "quantity":
            return field(1, value.encode())
        case "intstr":
            return (
                number(1, 0) + number(2, value) if isinstance(value, int) else number(1, 1) + field(3, value.encode())
            )
        case "raw":
            return field(1, msgspec.json.encode(value))
        case "strings":
            return b"".join(field(1, item.encode()) for item in value)
    return message(value, type_name)


def body(document: dict[str, Any], name: str) -> bytes:
    type_meta = message({"apiVersion": document["apiVersion"], "kind": document["kind"]}, "TypeMeta")
    return MAGIC + field(1, type_meta) + field(2, message(document, name)) + field(3, b"") + field(4, b"")
