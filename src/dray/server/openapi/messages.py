"""The protobuf forms of OpenAPI documents: the messages of gnostic, as clients in Go ask for them.

Documents are written by the tables of message_fields.py. Messages whose JSON does not tell which they are have a
function that does. A member that no message has is an error and not left out in silence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from dray.api.objects import Object
from dray.api.protobuf.wire import FIXED64, VARINT, delimited, tag, varint
from dray.server.openapi.message_fields import V2, V3, Members

Write = Callable[[Any], bytes]


class UnknownMember(Exception):
    """Raised if a document has a member that the messages do not have."""


class Messages:
    """Encodes the messages of one OpenAPI version.

    Each message is compiled to a function on first use. Schemas nest deeply, so the functions avoid intermediate calls.
    """

    def __init__(self, table: Mapping[str, Members]) -> None:
        self._table = table
        second = table is V2
        self._schema = "Schema" if second else "SchemaOrReference"
        self._writers: dict[str, Write] = {
            "str": str.encode,
            "any": _any,
            "DefaultType": _default,
            "TypeItem": lambda value: b"".join([delimited(1, text.encode()) for text in _listed(value)]),
        }
        self._makers: Mapping[str, Callable[[], Write]] = {
            "Paths": lambda: self._map(2 if second else 1, "PathItem"),
            "Responses": lambda: self._map(1 if second else 2, "ResponseValue"),
            "ResponseValue": lambda: self._wrapped(1, "Response"),
            "SchemaItem": lambda: self._wrapped(1, "Schema"),
            "AdditionalProperties": self._additional_properties,
            "ItemsItem": lambda: self._wrapped(1, self._schema),
            "ParametersItem": self._parameter,
            "SchemaOrReference": lambda: self._or_reference("Schema"),
            "ParameterOrReference": lambda: self._or_reference("Parameter"),
            "RequestBodyOrReference": lambda: self._or_reference("RequestBody"),
        }

    def write(self, kind: str, document: Any) -> bytes:
        """Encodes a document; raises `UnknownMember`."""
        return self._writer(kind)(document)

    def named(self, number: int, kind: str, name: str, value: Any) -> bytes:
        """Encodes an entry of a map as a message with a name and a value."""
        return _named(number, name, self._writer(kind)(value))

    def _writer(self, kind: str) -> Write:
        found = self._writers.get(kind)
        if found is None:
            made = self._makers[kind]() if kind in self._makers else self._message(kind)
            found = self._writers[kind] = made
        return found

    def _message(self, kind: str) -> Write:
        members = self._table[kind]
        # Schemas contain schemas: fields are compiled when they are first written.
        fields: dict[str, Write] = {}

        def write_message(document: Object) -> bytes:
            pieces = []
            for name, value in document.items():
                if name[:2] == "x-":
                    pieces.append(_named(members["x-"][0], name, _any(value)))
                    continue
                write = fields.get(name)
                if write is None:
                    if name not in members:
                        raise UnknownMember(f"{kind}.{name}")
                    write = fields[name] = self._field(*members[name])
                pieces.append(write(value))
            return b"".join(pieces)

        return write_message

    def _field(self, number: int, kind: str) -> Write:
        if kind in ("int", "bool"):
            plain = tag(number, VARINT)
            return lambda value: plain + varint(int(value)) if value else b""
        if kind == "double":
            double = tag(number, FIXED64)
            return lambda value: double + struct.pack("<d", value) if value else b""
        if kind == "str":
            return lambda value: delimited(number, value.encode()) if value else b""
        if kind.startswith("{}"):
            inner = self._map(1, kind[2:])
            return lambda value: delimited(number, inner(value))
        if kind.startswith("[]"):
            return self._list(number, kind[2:])
        return self._wrapped(number, kind)

    def _wrapped(self, number: int, kind: str) -> Write:
        write = self._writer(kind)
        return lambda value: delimited(number, write(value))

    def _list(self, number: int, kind: str) -> Write:
        write = self._writer(kind)

        def write_list(values: list[Any]) -> bytes:
            return b"".join([delimited(number, write(value)) for value in values])

        return write_list

    def _map(self, number: int, kind: str) -> Write:
        write = self._writer(kind)

        def write_map(values: Object) -> bytes:
            return b"".join([_named(number, name, write(each)) for name, each in values.items()])

        return write_map

    def _additional_properties(self) -> Write:
        write = self._writer(self._schema)

        def write_additional(value: Any) -> bytes:
            return tag(2, VARINT) + varint(int(value)) if isinstance(value, bool) else delimited(1, write(value))

        return write_additional

    def _or_reference(self, kind: str) -> Write:
        write, reference = self._writer(kind), self._writer("Reference")

        def write_either(value: Object) -> bytes:
            return delimited(2, reference(value)) if "$ref" in value else delimited(1, write(value))

        return write_either

    def _parameter(self) -> Write:
        """Returns the encoder of a version 2 parameter: of the body, the query or the path, each in its wrapper."""
        body, query, path = map(self._writer, ("BodyParameter", "QueryParameter", "PathParameter"))

        def write_parameter(value: Object) -> bytes:
            if value["in"] == "body":
                inner = delimited(1, body(value))
            elif value["in"] == "query":
                inner = delimited(2, delimited(3, query(value)))
            else:
                inner = delimited(2, delimited(4, path(value)))
            return delimited(1, inner)

        return write_parameter


def _named(number: int, name: str, content: bytes) -> bytes:
    return delimited(number, delimited(1, name.encode()) + delimited(2, content))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _any(value: Any) -> bytes:
    return delimited(2, msgspec.json.encode(value) + b"\n")


def _default(value: Any) -> bytes:
    """Encodes a default. Version 3 has no message for objects and lists, which are encoded as empty."""
    if isinstance(value, bool):
        return tag(2, VARINT) + varint(int(value))
    if isinstance(value, (int, float)):
        return tag(1, FIXED64) + struct.pack("<d", value)
    return delimited(3, value.encode()) if isinstance(value, str) else b""


@cache
def version2() -> Messages:
    return Messages(V2)


@cache
def version3() -> Messages:
    return Messages(V3)
