"""Managed fields as they stand in `metadata.managedFields`, and as sets by manager.

A manager is told from others by its name, by whether it applied or updated, by the subresource, and, where it
updated, by the version it used: one that applies has one entry, whatever the version.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.objects import Object
from dray.server.fieldmanager import field_set, path_elements
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.status import ApiError

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"


class Manager(msgspec.Struct, frozen=True, order=True):
    name: str
    operation: str
    # Empty for managers that applied.
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """Returns the manager as conflict messages name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned(msgspec.Struct, frozen=True):
    """The fields of one manager in the shape of a version, and when it last took one."""

    fields: FieldSet
    api_version: str
    time: str | None = None
    # The entry it was read from, unless it has changed.
    entry: Object | None = None

    def with_fields(self, fields: FieldSet) -> Owned:
        return Owned(fields, self.api_version, self.time)

    def at(self, time: str, api_version: str) -> Owned:
        entry = {**self.entry, "time": time} if self.entry and self.api_version == api_version else None
        return Owned(self.fields, api_version, time, entry)


Managers = dict[Manager, Owned]


def manager(name: str, operation: str, api_version: str, subresource: str = "") -> Manager:
    return Manager(name, operation, "" if operation == APPLY else api_version, subresource)


def read(entries: Any) -> Managers:
    """Reads managed fields that the server wrote."""
    return {
        manager(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", "")): Owned(
            entry.get("fieldsV1") or {}, entry["apiVersion"], entry.get("time"), entry
        )
        for entry in entries or ()
    }


def decode(entries: Any) -> Managers | None:
    """Reads managed fields from a client; returns None if any entry is invalid."""
    managers: Managers = {}
    for entry in entries or []:
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            return None
        if entry.get("fieldsType") != "FieldsV1" or not entry.get("apiVersion"):
            return None
        fields = field_set.read(entry.get("fieldsV1") or {})
        if fields is None:
            return None
        key = manager(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
        managers[key] = Owned(fields, entry["apiVersion"], entry.get("time"))
    return managers


def encode(managers: Managers) -> list[Object]:
    ordered = sorted(managers.items(), key=_order) if len(managers) > 1 else managers.items()
    return [owned.entry or _entry(key, owned) for key, owned in ordered]


def _order(pair: tuple[Manager, Owned]) -> tuple[str, ...]:
    key, owned = pair
    return key.operation, owned.time or "", key.name, owned.api_version, key.subresource


def _entry(key: Manager, owned: Owned) -> Object:
    return {
        "manager": key.name,
        "operation": key.operation,
        "apiVersion": owned.api_version,
        **({"time": owned.time} if owned.time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": field_set.ordered(owned.fields),
        **({"subresource": key.subresource} if key.subresource else {}),
    }


def capped(managers: Managers) -> Managers:
    """Merges the oldest updaters of each version until there are no more than the limit."""
    if len(managers) <= MAX_UPDATERS:
        return managers
    updaters = [key for key in managers if key.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managers
    updaters.sort(key=lambda key: (managers[key].time or "", key))
    managers = dict(managers)
    first_of_version: dict[str, Manager] = {}
    merged: dict[Manager, list[Owned]] = {}
    for key in updaters:
        if excess <= 0:
            break
        owned = managers[key]
        first = first_of_version.setdefault(owned.api_version, key)
        if first == key:
            continue
        bucket = manager(_ANCIENT, UPDATE, owned.api_version)
        if bucket not in managers:
            managers[bucket] = managers.pop(first)
        if key != bucket:
            merged.setdefault(bucket, [managers[bucket]]).append(managers.pop(key))
            excess -= 1
    for bucket, parts in merged.items():
        managers[bucket] = parts[-1].with_fields(field_set.union(*(part.fields for part in parts)))
    return managers


class ApplyConflict(ApiError):
    """A 409 with a cause for each field that another manager owns."""

    def __init__(self, conflicts: dict[Manager, FieldSet]) -> None:
        self.conflicts = conflicts
        found = [
            (key, path_elements.render(path)) for key in sorted(conflicts) for path in field_set.paths(conflicts[key])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {key}", "field": field}
            for key, field in found
        ]
        super().__init__(409, "Conflict", _message(found), details={"causes": causes})

    def without(self, allowed: FieldSet) -> ApplyConflict | None:
        """Returns the conflict without fields that may be taken; None if no field is left."""
        left = {key: field_set.difference(fields, allowed) for key, fields in self.conflicts.items()}
        left = {key: fields for key, fields in left.items() if fields}
        return ApplyConflict(left) if left else None


def _message(found: list[tuple[Manager, str]]) -> str:
    if len(found) == 1:
        key, field = found[0]
        return f"Apply failed with 1 conflict: conflict with {key}: {field}"
    lines: list[str] = []
    for key in dict.fromkeys(key for key, _ in found):
        lines.append(f"conflicts with {key}:")
        lines.extend(f"- {field}" for other, field in found if other == key)
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
