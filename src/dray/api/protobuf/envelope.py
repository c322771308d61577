"""The envelope: four bytes that say Kubernetes, then a message that names the kind and holds the object.

A watch sends events in frames: four bytes with the length, then a message with the type of the event and an envelope.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from dray.api.objects import Object
from dray.api.protobuf.decoder import decode_message
from dray.api.protobuf.encoder import encode_message
from dray.api.protobuf.wire import BYTES, WireError, delimited, read_field
from dray.api.wire_types import fields, type_of

MAGIC = b"k8s\x00"
_TYPE_META = "pkg_runtime.TypeMeta"
_HEAD, _RAW = 1, 2
# Encoding and type of the content, which Kubernetes leaves empty.
_CLOSING = delimited(3, b"") + delimited(4, b"")


class UnknownKindError(ValueError):
    """The kind has no protobuf message."""


def decode(body: bytes) -> Object:
    """Decodes an envelope to the same document as JSON would. Raises `WireError` and `UnknownKindError`."""
    if not body.startswith(MAGIC):
        raise WireError("the data does not appear to be a protobuf message, expected prefix k8s\\x00")
    found = {_HEAD: b"", _RAW: b""}
    at = len(MAGIC)
    while at < len(body):
        number, wire_type, value, at = read_field(body, at)
        if number in found:
            if wire_type != BYTES or isinstance(value, int):
                raise WireError(f"field {number} of the envelope has the wrong wire type {wire_type}")
            found[number] = value
    head = decode_message(found[_HEAD], _TYPE_META)
    api_version, kind = head.get("apiVersion", ""), head.get("kind", "")
    return {"apiVersion": api_version, "kind": kind, **decode_message(found[_RAW], _type(api_version, kind))}


def encode(document: Object) -> bytes:
    """Encodes an object in an envelope. Raises like `decode`."""
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    raw = encode_message(document, _type(api_version, kind))
    return _envelope(api_version, kind, raw)


def encode_list(head: Object, items: Iterable[Object]) -> bytes:
    """A list in an envelope: its kind and metadata, and its items, which are taken one by one."""
    api_version, kind = head.get("apiVersion", ""), head.get("kind", "")
    type_name = _type(api_version, kind)
    number, item_type = _items(type_name)
    pieces = [encode_message(head, type_name)]
    pieces += (delimited(number, encode_message(item, item_type)) for item in items)
    return _envelope(api_version, kind, b"".join(pieces))


@cache
def _items(type_name: str) -> tuple[int, str]:
    """The number and the type of the items of a list."""
    for field in fields(type_name):
        if field.name == "items":
            return field.numbers[0], field.type.removeprefix("[]")
    raise UnknownKindError(f"{type_name} is not a list")


def encode_event(kind: str, envelope: bytes) -> bytes:
    """An event of a watch, as a frame."""
    event = delimited(1, kind.encode()) + delimited(2, delimited(1, envelope))
    return len(event).to_bytes(4, "big") + event


def _type(api_version: str, kind: str) -> str:
    found = type_of(api_version, kind)
    if found is None:
        raise UnknownKindError(f'no kind "{kind}" is registered for version "{api_version}"')
    return found


def _envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"".join((_opening(api_version, kind), delimited(_RAW, raw), _CLOSING))


@lru_cache(maxsize=1024)
def _opening(api_version: str, kind: str) -> bytes:
    """Returns the bytes before an encoded object."""
    return MAGIC + delimited(_HEAD, encode_message({"apiVersion": api_version, "kind": kind}, _TYPE_META))
