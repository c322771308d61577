"""Defaults of structural schemas, and pruning of what they do not name.

A null where the schema allows none counts as absent: it gives way to the default, or just goes. Defaults are filled in
from the outside in, so that what a default brings is itself completed. What they bring together is bounded: a long
default in each of many items makes an object that is too large to store.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import msgspec

from dray.api.objects import Object
from dray.api.wire_types import TYPES
from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import join

MAX_BYTES: Final = 3 * 1024 * 1024
# Members of every object and embedded object, which schemas need not name.
_IMPLIED = frozenset({"apiVersion", "kind", "metadata"})


class TooLarge(Exception):
    """Raised if the defaults make an object larger than any object may be."""


def fill(value: Any, schema: Schema) -> None:
    """Fills in defaults in place; raises TooLarge."""
    _Filling().fill(value, schema)


def are_in(schema: Schema) -> bool:
    """Returns True if the schema has defaults."""
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return "default" in schema or any(are_in(part) for part in inner if isinstance(part, dict))


def complete(obj: Object, schema: Schema) -> None:
    """Fills in defaults of an object except in its metadata; raises TooLarge."""
    metadata = obj.pop("metadata", None)
    try:
        fill(obj, schema)
    finally:
        obj.pop("metadata", None)
        if metadata is not None:
            obj["metadata"] = metadata


class _Filling:
    def __init__(self) -> None:
        self._bytes = 0

    def fill(self, value: Any, schema: Schema) -> None:
        if isinstance(value, dict):
            self._fill_object(value, schema)
        elif isinstance(value, list):
            items = schema.get("items")
            if isinstance(items, dict):
                for index, item in enumerate(value):
                    if item is None and "default" in items and not items.get("nullable"):
                        value[index] = self._default(items)
                    self.fill(value[index], items)

    def _fill_object(self, value: dict[str, Any], schema: Schema) -> None:
        properties = schema.get("properties") or {}
        for name, member in properties.items():
            if name in value and value[name] is None and not member.get("nullable"):
                del value[name]
            if name not in value and "default" in member:
                value[name] = self._default(member)
            if name in value:
                self.fill(value[name], member)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            for name in value.keys() - properties.keys():
                if value[name] is None and "default" in others and not others.get("nullable"):
                    value[name] = self._default(others)
                self.fill(value[name], others)

    def _default(self, schema: Schema) -> Any:
        default = schema["default"]
        self._bytes += len(msgspec.json.encode(default))
        if self._bytes > MAX_BYTES:
            raise TooLarge
        return deepcopy(default)


def prune(value: Any, schema: Schema, *, root: bool = True) -> tuple[Any, list[str]]:
    """Returns a copy of the value without unknown members, and the paths of these members."""
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
            kept[name] = _prune_metadata(item, join(path, name), dropped) if path and name == "metadata" else item
        elif member is not None:
            inside = bool(member.get("x-kubernetes-embedded-resource"))
            kept[name] = _prune(item, member, join(path, name), inside, dropped)
        elif keeps:
            kept[name] = item
        else:
            dropped.append(join(path, name))
    return kept


def _prune_metadata(value: Any, path: str, dropped: list[str]) -> Any:
    """Prunes the metadata of an embedded object; the metadata of the object itself is read with its kind."""
    if not isinstance(value, dict):
        return value
    dropped += [join(path, name) for name in value if name not in TYPES["meta_v1.ObjectMeta"]]
    return {name: item for name, item in value.items() if name in TYPES["meta_v1.ObjectMeta"]}
