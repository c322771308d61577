"""Pruning: members that a structural schema does not name are dropped, unless it says they may stay."""

from __future__ import annotations

from typing import Any

from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import join

# What the server knows of every object, and of every object within another.
_IMPLIED = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Any, schema: Schema, *, root: bool = True) -> tuple[Any, list[str]]:
    """The value without unknown members, and the paths of those; the given value is left as it is."""
    dropped: list[str] = []
    return _prune(value, schema, "", root, dropped), dropped


def _prune(value: Any, schema: Schema, path: str, whole_object: bool, dropped: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        inside = bool(items.get("x-kubernetes-embedded-resource"))
        return [_prune(item, items, f"{path}[{index}]", inside, dropped) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or others is True
    kept = {}
    for name, item in value.items():
        member = properties.get(name)
        if member is None and isinstance(others, dict):
            member = others
        if whole_object and name in _IMPLIED:
            kept[name] = item
        elif member is not None:
            inside = bool(member.get("x-kubernetes-embedded-resource"))
            kept[name] = _prune(item, member, join(path, name), inside, dropped)
        elif keeps:
            kept[name] = item
        else:
            dropped.append(join(path, name))
    return kept
