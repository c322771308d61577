"""Representations of stored objects in answers: whole, metadata alone, or rows of a table; as JSON or YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from dray.api.objects import Object
from dray.server import documents
from dray.server.negotiation import Form
from dray.server.resources import Resource
from dray.yaml.writing import Writer

# Size in bytes after which a piece of a list ends.
_PIECE: Final = 64 * 1024
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def one(resource: Resource, value: bytes, form: Form, now: str, include: str = "") -> bytes:
    if form is Form.OBJECT:
        return resource.present(value)
    if form is Form.METADATA:
        return documents.encode(partial(documents.decode(value)))
    obj = resource.read(value)
    head = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return documents.encode(table(resource, [obj], head, now, include))


def several(
    resource: Resource, values: Iterable[bytes], head: Object, form: Form, now: str, include: str = ""
) -> Iterator[bytes]:
    """Yields a list in pieces that are made on demand; `head` is its metadata."""
    if form is Form.OBJECT:
        document: Object = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": head}
        return _pieces(document, "items", ((len(value), resource.item(value)) for value in values))
    if form is Form.METADATA:
        document = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": head}
        heads = ((len(value), documents.encode(partial(documents.decode(value)))) for value in values)
        return _pieces(document, "items", heads)
    rows = ((len(value), documents.encode(_row(resource, resource.read(value), now, include))) for value in values)
    return _pieces(_table_head(resource, head), "rows", rows)


def _pieces(document: Object, member: str, items: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yields a document whose last member is a list of encoded items, each given with its original size."""
    parts = [documents.encode(document)[:-1] + b',"' + member.encode() + b'":[']
    size, separator = len(parts[0]), b""
    for read, item in items:
        if size >= _PIECE:
            yield b"".join(parts)
            parts, size = [], 0
        parts += (separator, item)
        size += max(read, len(item))
        separator = b","
    yield b"".join((*parts, b"]}"))


def partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def table(
    resource: Resource, objects: Iterable[Object], head: Object, now: str, include: str = "", *, headless: bool = False
) -> Object:
    """Returns a table; `headless` leaves the columns out, as in all but the first event of a watch."""
    rows = [_row(resource, obj, now, include) for obj in objects]
    return {**_table_head(resource, head, headless=headless), "rows": rows}


def bookmark_table(resource: Resource, obj: Object) -> Object:
    """Returns a table with the one row of a bookmark, which has nothing but metadata."""
    head = {"resourceVersion": obj["metadata"]["resourceVersion"]}
    row = {"cells": [None] * len(resource.columns), "object": partial(obj)}
    return {**_table_head(resource, head, headless=True), "rows": [row]}


def _table_head(resource: Resource, head: Object, *, headless: bool = False) -> Object:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": head,
        "columnDefinitions": None if headless else column_definitions(resource),
    }


def column_definitions(resource: Resource) -> list[Object]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": "",
            "priority": column.priority,
        }
        for column in resource.columns
    ]


def _row(resource: Resource, obj: Object, now: str, include: str) -> Object:
    row: Object = {"cells": resource.row(obj, now)}
    if include == "Object":
        row["object"] = resource.answer(obj)
    elif include != "None":
        row["object"] = partial(obj)
    return row


def as_yaml(body: bytes) -> bytes:
    """Converts a JSON document to YAML.

    A list is converted item by item: decoding a long one at once would block other requests.
    """
    return b"".join(part.encode() for part in _parts(body))


def _parts(body: bytes) -> Iterator[str]:
    writer = Writer()
    if not body.startswith(b"{") or body == b"{}":
        yield writer.write(documents.decode(body))
        return
    for name, value in _members(body).items():
        if bytes(memoryview(value)[:1]) == b"[" and (items := _items(value)):
            yield from writer.write_list(name, map(documents.decode, items))
        else:
            yield writer.write({name: documents.decode(value)})
