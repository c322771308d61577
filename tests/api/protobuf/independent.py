"""The same messages with the protobuf runtime: descriptors made from the table of wire types, values by its rules.

Nothing of dray's codec is used here: what both agree on, the one who wrote the codec cannot have read wrongly alone.
"""

import base64
import json
from datetime import datetime
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from dray.api import wire_types
from dray.api.wire_fields import FIELDS

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "wire"
_SCALARS = {
    "str": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "float": _Field.TYPE_DOUBLE,
}
_SCHEMA = "apiextensions_v1.JSONSchemaProps"
# The messages behind values that JSON writes otherwise: name, number, type.
_SPECIAL: dict[str, list[tuple[str, int, str]]] = {
    "time": [("seconds", 1, "int64"), ("nanos", 2, "int32")],
    "quantity": [("string", 1, "str")],
    "intstr": [("type", 1, "int64"), ("intVal", 2, "int32"), ("strVal", 3, "str")],
    "raw": [("raw", 1, "bytes")],
    "strings": [("items", 1, "[]str")],
    "or_array": [("schema", 1, _SCHEMA), ("items", 2, f"[]{_SCHEMA}")],
    "or_bool": [("allows", 1, "bool"), ("schema", 2, _SCHEMA)],
    "or_strings": [("schema", 1, _SCHEMA), ("items", 2, "[]str")],
}
_SAME = {"microtime": "time", "any": "raw"}


def _name(type_name: str) -> str:
    return _SAME.get(type_name, type_name).replace(".", "_")


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="wire.proto", package=_PACKAGE, syntax="proto2")
    for special, fields in _SPECIAL.items():
        message = file.message_type.add(name=_name(special))
        for name, number, kind in fields:
            _add(message, name, number, kind)
    for type_name in FIELDS:
        message = file.message_type.add(name=_name(type_name))
        holders = {(): (message, f".{_PACKAGE}.{message.name}")}
        for field in wire_types.fields(type_name):
            if field.numbers != (0,):
                holder, _ = _holder(holders, field.numbers[:-1])
                _add(holder, f"f{field.numbers[-1]}", field.numbers[-1], field.type)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_Holders = dict[tuple[int, ...], tuple[descriptor_pb2.DescriptorProto, str]]


def _holder(holders: _Holders, path: tuple[int, ...]) -> tuple[descriptor_pb2.DescriptorProto, str]:
    """The message that the members of an inlined one stand in, and its name."""
    if path not in holders:
        outer, name = _holder(holders, path[:-1])
        number = path[-1]
        inner = outer.nested_type.add(name=f"Inlined{number}")
        holders[path] = (inner, f"{name}.{inner.name}")
        outer.field.add(
            name=f"inlined{number}", number=number, type=_Field.TYPE_MESSAGE, label=1, type_name=holders[path][1]
        )
    return holders[path]


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=1)
    if kind.startswith("[]"):
        field.label = 3
        kind = kind[2:]
    elif kind.startswith("{}"):
        # The order of a map of the runtime is its own: Kubernetes' maps are their entries in order.
        entry = message.nested_type.add(name=f"Entry{number}")
        _add(entry, "key", 1, "str")
        _add(entry, "value", 2, kind[2:])
        field.label, field.type = 3, _Field.TYPE_MESSAGE
        # A message within an inlined one has a longer path, which the pool finds by the short name.
        field.type_name = entry.name
        return
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{_name(kind)}"


def serialize(document: dict[str, Any], type_name: str) -> bytes:
    return _fill(_new(type_name), document, type_name).SerializeToString(deterministic=True)


def parse(data: bytes, type_name: str) -> Message:
    message = _new(type_name)
    message.ParseFromString(data)
    return message


def _new(type_name: str) -> Message:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{_name(type_name)}"))()


def _fill(message: Message, document: dict[str, Any], type_name: str) -> Message:
    for field in wire_types.fields(type_name):
        if field.name in document and field.numbers != (0,):
            holder = message
            for number in field.numbers[:-1]:
                holder = getattr(holder, f"inlined{number}")
            _set(holder, f"f{field.numbers[-1]}", document[field.name], field.type)
    return message


def _set(message: Any, name: str, value: Any, kind: str) -> None:
    if kind.startswith("[]"):
        items = getattr(message, name)
        for item in value:
            if kind[2:] in _SCALARS:
                items.append(_scalar(item, kind[2:]))
            else:
                _fill_any(items.add(), item, kind[2:])
    elif kind.startswith("{}"):
        for key in sorted(value):
            entry = getattr(message, name).add()
            entry.key = key
            _set(entry, "value", value[key], kind[2:])
    elif kind in _SCALARS:
        setattr(message, name, _scalar(value, kind))
    else:
        inner = getattr(message, name)
        inner.SetInParent()
        _fill_any(inner, value, kind)


def _scalar(value: Any, kind: str) -> Any:
    return base64.b64decode(value) if kind == "bytes" else value


def _fill_any(message: Any, value: Any, kind: str) -> None:
    if value is None:
        return
    match _SAME.get(kind, kind):
        case "time":
            moment = datetime.fromisoformat(value)
            message.seconds = int(moment.replace(microsecond=0).timestamp())
            message.nanos = moment.microsecond * 1000
        case "quantity":
            message.string = value
        case "intstr":
            message.type, message.intVal, message.strVal = (1, 0, value) if isinstance(value, str) else (0, value, "")
        case "raw":
            message.raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        case "strings":
            message.items.extend(value)
        case "or_array" | "or_bool" | "or_strings":
            _fill_or(message, value, kind)
        case _:
            _fill(message, value, kind)


def _fill_or(message: Any, value: Any, kind: str) -> None:
    if isinstance(value, bool):
        message.allows = value
    elif isinstance(value, dict):
        if kind == "or_bool":
            message.allows = True
        message.schema.SetInParent()
        _fill(message.schema, value, _SCHEMA)
    elif kind == "or_array":
        for item in value:
            _fill(message.items.add(), item, _SCHEMA)
    else:
        message.items.extend(value)
