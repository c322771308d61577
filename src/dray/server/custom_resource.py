"""A custom kind as it is served: the surface of a resource over its definition.

Which version a document was stored in is read from it: the definition may have changed since. It is shown in another
version by exchanging its apiVersion and leaving out what that version does not know, or, where the definition says so,
as a webhook converts it (custom/conversion.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from dray.api import intake, json_path
from dray.api.errors import render
from dray.api.gates import FeatureGates
from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.tables.column import NAME, Column, age
from dray.server import compilation, documents, selection
from dray.server.custom import defaults, objects, schema_check
from dray.server.custom.conversion import WebhookConverter
from dray.server.custom.definitions import ColumnDefinition, CustomVersion
from dray.server.custom.tracking import TrackedCustomKind
from dray.server.resources import Resource, key_prefix
from dray.server.selection import Field
from dray.server.worker import AT_ONCE

Filler = Callable[[Object, str, json_path.Work], Any]
# Limit of values that the paths of all columns may visit for each row.
_ROW_VALUES: Final = 5000


class CustomResource(Resource):
    strategic = False
    schema = ""
    returns_deleted = False
    unconditional_update = False

    def __init__(
        self,
        served: CustomVersion,
        versions: Sequence[CustomVersion],
        *,
        ending: bool = False,
        changed: bool = False,
        converter: WebhookConverter | None = None,
    ) -> None:
        """`changed`: the definition was updated, so stored documents may have members that it no longer knows."""
        self._served = served
        self._converter, self.converts = converter, converter is not None
        # True if the definition is being deleted: then nothing is created any more.
        self.ending = ending
        self.group, self.version, self.plural, self.kind = served.group, served.name, served.plural, served.kind
        self.singular, self.list_kind, self.namespaced = served.singular, served.list_kind, served.namespaced
        self.short_names, self.categories, self.subresources = (
            served.short_names,
            served.categories,
            served.subresources,
        )
        self.scale = served.scale
        # The paths of replicas by apiVersion, for versions with a scale subresource.
        self.replica_paths = {
            version.api_version: version.scale["specReplicasPath"].removeprefix(".") if version.scale else None
            for version in versions
        }
        self.custom_schema = served.schema
        self.selectable_fields = served.selectable_fields
        self.effort = schema_check.effort(served.schema)
        if compilation.in_schema(served.schema):
            self.effort = max(self.effort, AT_ONCE)
        self.api_version = self.hub_api_version = served.api_version
        self._storage = next(version for version in versions if version.storage)
        self.storage_api_version = self._storage.api_version
        self.deprecation = served.deprecation
        self.key_prefix = key_prefix(self.group, self.plural)
        self.columns = columns(served)
        self._fillers = [_filler(definition) for definition in served.columns]
        self.fields = {
            **selection.fields("", "", namespaced=self.namespaced),
            **{path.removeprefix("."): _field(path) for path in served.selectable_fields},
        }
        self.tracked = TrackedCustomKind(served, versions, converter)
        self._stored_opening = documents.opening(self.kind, self.storage_api_version)
        self._prunes = changed or any(version.schema != served.schema for version in versions)
        self._opening = documents.opening(self.kind, self.api_version)
        self._has_defaults = defaults.are_in(served.schema)

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return objects.create(document, self._served, place)

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return objects.update(document, old, self._served, place, subresource)

    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        refusal = intake.check_identity(document, self.api_version, self.kind)
        metadata = document.get("metadata")
        if refusal is not None or not isinstance(metadata, dict):
            return refusal or intake.bad_request("metadata must be an object")
        return {**document, "apiVersion": self.hub_api_version, "kind": self.kind, "metadata": dict(metadata)}

    def row(self, obj: Object, now: str) -> list[Any]:
        # A definition may have any number of columns.
        work = json_path.Work(_ROW_VALUES)
        return [NAME.cell(obj, now), *(fill(obj, now, work) for fill in self._fillers)]

    def prune(self, document: Object) -> Object:
        return objects.prune(document, self._served)

    def read(self, value: bytes) -> Object:
        """Decodes a stored object, with new defaults and without members that the definition no longer has."""
        obj: Object = documents.decode(value)
        if self.converts and obj["apiVersion"] != self.api_version:
            raise RuntimeError(f"{obj['metadata']['name']} is read in {obj['apiVersion']}, not converted")
        obj["apiVersion"] = self.hub_api_version
        if self._prunes:
            obj = defaults.prune(obj, self._served.schema)[0]
        if self._has_defaults:
            with suppress(defaults.TooLarge):
                defaults.complete(obj, self._served.schema)
        return obj

    def present(self, value: bytes) -> bytes:
        if not self._has_defaults and not self._prunes and value.startswith(self._opening):
            return value
        return documents.encode(self.answer(self.read(value)))

    async def seen(self, values: Sequence[bytes]) -> Sequence[bytes]:
        if self._converter is None or all(value.startswith(self._opening) for value in values):
            return values
        return await self._converter.convert_stored(values, self.api_version)

    async def storable(self, obj: Object) -> Object:
        if self._storage is self._served:
            return obj
        if self._converter is not None:
            return (await self._converter.convert([obj], self.storage_api_version))[0]
        kept: Object = defaults.prune(obj, self._storage.schema)[0]
        return kept

    async def in_version(self, objects: Sequence[Object], version: str) -> list[Object]:
        assert self._converter is not None
        return await self._converter.convert(objects, f"{self.group}/{version}")

    def is_current(self, value: bytes) -> bool:
        return value.startswith(self._stored_opening)


def _field(path: str) -> Field:
    parsed = json_path.parse(path)

    def read(obj: Object) -> str:
        found = json_path.find(parsed, obj) if parsed is not None else []
        value = found[0] if found else ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    return read


def columns(version: CustomVersion) -> tuple[Column, ...]:
    """Returns the columns of a version: the name, and those of the definition."""
    return (NAME, *(_column(definition) for definition in version.columns))


def _column(definition: ColumnDefinition) -> Column:
    wide, fill = definition.priority > 0, _filler(definition)

    def cell(obj: Object, now: str) -> Any:
        return fill(obj, now, json_path.Work(_ROW_VALUES))

    return Column(definition.name, cell, definition.type, definition.format, wide)


def _filler(definition: ColumnDefinition) -> Filler:
    """Returns a function for the cell of an object; it returns None for no value, or if that takes too much work."""
    path = json_path.parse(definition.json_path)

    def fill(obj: Object, now: str, work: json_path.Work) -> Any:
        found = json_path.first(path, obj, work) if path is not None else []
        return shown(found[0], definition.type, now) if found else None

    return fill


def shown(value: Any, kind: str, now: str) -> Any:
    """Returns a value as its column shows it; None if it has another type."""
    if value is None:
        return None
    if kind == "string":
        return value if isinstance(value, str) else render(value)
    if kind == "date":
        return _date(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else value


def _date(value: str, now: str) -> str:
    try:
        return age(value, now)
    except (ValueError, TypeError):
        return "<invalid>"
