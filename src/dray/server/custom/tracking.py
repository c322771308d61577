"""Tracked custom kinds: the types of their fields for server-side apply, taken from their schemas."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import Object
from dray.server.custom import conversion
from dray.server.custom.conversion import WebhookConverter
from dray.server.custom.definitions import CustomVersion, Schema
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.field_types import (
    ATOMIC_LIST,
    ATOMIC_OBJECT,
    DEDUCED,
    PLAIN,
    FieldType,
    Form,
    field_type,
)
from dray.server.fieldmanager.tracked_kinds import ignoring

_IDENTITY = frozenset({"apiVersion", "kind"})
_WITHOUT_STATUS = ignoring()
_MAIN = ignoring("status")
_STATUS = ignoring("metadata", "spec")


class TrackedCustomKind:
    """A custom kind in the version of the request; `versions` has all its versions."""

    def __init__(
        self, current: CustomVersion, versions: Iterable[CustomVersion], converter: WebhookConverter | None = None
    ) -> None:
        self._converter = converter
        self.api_version = current.api_version
        self.kind = current.kind
        self._has_status = current.status
        self._types = {version.api_version: of_schema(version.schema, whole_object=True) for version in versions}

    def field_type(self, api_version: str) -> FieldType | None:
        return self._types.get(api_version)

    def convert(self, obj: Object, api_version: str) -> Object:
        # Objects without content are the same in every version.
        if self._converter is None or obj.get("apiVersion") == api_version or obj.keys() <= _IDENTITY:
            return {**obj, "apiVersion": api_version}
        # Removed members are null here, which no client would have sent.
        given = {name: value for name, value in obj.items() if value is not None}
        return conversion.known(self._converter, given, api_version)

    def ignored(self, subresource: str) -> FieldSet:
        if subresource == "status":
            return _STATUS
        return _MAIN if self._has_status else _WITHOUT_STATUS

    def blank(self) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind}


def of_schema(schema: Schema, *, whole_object: bool = False) -> FieldType:
    """Returns the field type that a structural schema describes."""
    kind = schema.get("type")
    if kind == "array":
        return _list_type(schema)
    if kind in ("string", "integer", "number", "boolean") or schema.get("x-kubernetes-int-or-string"):
        return PLAIN
    if kind != "object":
        return DEDUCED
    if schema.get("x-kubernetes-map-type") == "atomic":
        return ATOMIC_OBJECT
    made = FieldType(Form.OBJECT, others=_others(schema))
    for name, member in (schema.get("properties") or {}).items():
        made.fields[name] = of_schema(member)
    if whole_object or schema.get("x-kubernetes-embedded-resource"):
        made.fields.update(apiVersion=PLAIN, kind=PLAIN, metadata=field_type("meta_v1.ObjectMeta"))
    return made


def _others(schema: Schema) -> FieldType | None:
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return of_schema(others)
    return DEDUCED if others is True or schema.get("x-kubernetes-preserve-unknown-fields") else None


def _list_type(schema: Schema) -> FieldType:
    items = schema.get("items")
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("set", "map") or not isinstance(items, dict):
        return ATOMIC_LIST
    if list_type == "set":
        return FieldType(Form.SET, items=of_schema(items))
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    properties = items.get("properties") or {}
    found = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return FieldType(Form.KEYED, items=of_schema(items), keys=keys, key_defaults=found)
