"""Stored documents as answers: whole, as their metadata alone, or as rows of a table; one or a list of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.server import documents
from dray.server.negotiation import Form
from dray.server.resources import Resource

Object = dict[str, Any]


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
) -> bytes:
    """A list; `head` is its metadata."""
    if form is Form.OBJECT:
        opening = documents.encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": head})
        return opening[:-1] + b',"items":[' + b",".join(map(resource.item, values)) + b"]}"
    if form is Form.METADATA:
        items = [partial(documents.decode(value)) for value in values]
        document = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": head}
        return documents.encode({**document, "items": items})
    return documents.encode(table(resource, map(resource.read, values), head, now, include))


def partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def table(
    resource: Resource, objects: Iterable[Object], head: Object, now: str, include: str = "", *, headless: bool = False
) -> Object:
    """`headless` leaves the columns out, as in all but the first event of a watch."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": head,
        "columnDefinitions": None if headless else column_definitions(resource),
        "rows": [_row(resource, obj, now, include) for obj in objects],
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
