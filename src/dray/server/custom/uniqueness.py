"""Uniqueness of items in sets and keyed lists, and the identity of embedded objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api import errors
from dray.api.errors import FieldError
from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import join


def check(value: Any, schema: Schema, path: str = "") -> Iterator[FieldError]:
    if isinstance(value, list):
        yield from _check_items(value, schema, path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from check(item, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            yield from _check_embedded(value, path)
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            member = properties.get(name, others)
            if isinstance(member, dict):
                yield from check(item, member, join(path, name))


def _check_items(items: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen = set()
    for index, item in enumerate(items):
        identity = item
        if kind == "map":
            identity = {key: item.get(key) for key in keys} if isinstance(item, dict) else item
        shown = errors.render(identity)
        if shown in seen:
            yield errors.duplicate(f"{path}[{index}]", identity)
        seen.add(shown)


def _check_embedded(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for member in ("apiVersion", "kind"):
        if not value.get(member):
            yield errors.required(join(path, member), "must not be empty")
