"""A custom kind as it is served: the surface of a resource over its definition.

Versions of a custom kind differ in their schemas only, so that a document is shown in another version by exchanging
its apiVersion. Which version a document was stored in is read from it: the definition may have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.tables.column import Column
from dray.server import documents, selection
from dray.server.custom import columns, json_path, objects, schema_check
from dray.server.custom.definitions import CustomVersion
from dray.server.custom.tracking import TrackedCustomKind
from dray.server.fieldmanager.tracked_kinds import TrackedKind
from dray.server.resources import key_prefix
from dray.server.selection import Field


class CustomResource:
    strategic = False
    schema = ""
    returns_deleted = False
    unconditional_update = False

    def __init__(self, served: CustomVersion, versions: Sequence[CustomVersion], *, ending: bool = False) -> None:
        self._served = served
        # Whether its definition is being deleted: then nothing is created any more.
        self.ending = ending
        self.group, self.version, self.plural, self.kind = served.group, served.name, served.plural, served.kind
        self.singular, self.list_kind, self.namespaced = served.singular, served.list_kind, served.namespaced
        self.short_names: Sequence[str] = served.short_names
        self.categories: Sequence[str] = served.categories
        self.subresources: Sequence[str] = served.subresources
        self.scale = served.scale
        self.custom_schema: Object | None = served.schema
        self.effort = schema_check.effort(served.schema)
        self.storage_group = served.group
        self.storage_version = next(version.name for version in versions if version.storage)
        self.deprecation = served.deprecation
        self.key_prefix = key_prefix(self.group, self.plural)
        self.columns: Sequence[Column] = columns.columns(served)
        self.fields: Mapping[str, Field] = {
            **selection.fields("", "", namespaced=self.namespaced),
            **{path.removeprefix("."): _field(path) for path in served.selectable_fields},
        }
        self.tracked: TrackedKind = TrackedCustomKind(served, versions)
        self._storage_api_version = f"{self.group}/{self.storage_version}"
        self._opening = documents.opening(self.kind, self.api_version)

    @property
    def api_version(self) -> str:
        return self._served.api_version

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else f"{self.key_prefix}{name}"

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return objects.create(document, self._served, place)

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return objects.update(document, old, self._served, place, subresource)

    def prune(self, document: Object) -> Object:
        return objects.prune(document, self._served)

    def read(self, value: bytes) -> Object:
        obj: Object = documents.decode(value)
        obj["apiVersion"] = self.api_version
        return obj

    def encoder(self, obj: Object) -> documents.Encoder:
        return documents.Encoder(obj, self.kind, self._storage_api_version)

    def answer(self, obj: Object) -> Object:
        return documents.ordered(obj, self.kind, self.api_version)

    def present(self, value: bytes) -> bytes:
        if value.startswith(self._opening):
            return value
        return documents.encode(self.answer(self.read(value)))

    def item(self, value: bytes) -> bytes:
        return self.present(value)

    def row(self, obj: Object, now: str) -> list[Any]:
        return columns.row(self._served, obj, now)

    def tracked_form(self, obj: Object) -> Object:
        return obj


def _field(path: str) -> Field:
    parsed = json_path.parse(path)

    def read(obj: Object) -> str:
        found = json_path.find(parsed, obj) if parsed is not None else []
        value = found[0] if found else ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    return read
