"""Tracked kinds, as field management sees them: types in each version, and conversion between them.

`TrackedKind` is the kind in the version of the request. Built-in kinds come from the catalogue (`built_in`); for
custom kinds see custom/tracking.py.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from dray.api import conversion, schema
from dray.api.catalogue import KindVersion, split_api_version
from dray.api.objects import Object
from dray.server.fieldmanager import field_set
from dray.server.fieldmanager.field_set import FieldSet
from dray.server.fieldmanager.field_types import FieldType, field_type
from dray.server.status import ApiError


class Unconvertible(ApiError):
    """Raised if an object cannot be converted to another version."""


class TrackedKind(Protocol):
    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...

    def field_type(self, api_version: str) -> FieldType | None:
        """Returns the type of objects in a version; None if the version is no longer served."""
        ...

    def convert(self, obj: Object, api_version: str) -> Object:
        """Converts an object from its version to another one.

        An object in that version already must be in canonical form, without empty members. Raises Unconvertible.
        """
        ...

    def ignored(self, subresource: str) -> FieldSet:
        """Returns fields that a request to the (sub)resource cannot set, and fields without an owner."""
        ...

    def blank(self) -> Object:
        """Returns the object before any field is set; it must not be changed."""
        ...


# Fields that the server sets or that identify the object: they have no owner.
_SERVER_METADATA = (
    "name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion".split()
)
_UNOWNED = ("apiVersion", "kind", *(f"metadata.{name}" for name in _SERVER_METADATA))
# Kinds whose status subresource resets more than the spec.
_STATUS_RESETS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    "CustomResourceDefinition": ("spec", "metadata"),
    "DeviceTaintRule": ("spec", "metadata"),
    "ResourcePoolStatusRequest": ("spec", "metadata"),
    "FlowSchema": ("spec", "metadata"),
    "PriorityLevelConfiguration": ("spec", "metadata"),
    "PodGroup": ("spec", "metadata"),
    "CompositePodGroup": ("spec", "metadata"),
    "PodCertificateRequest": ("spec", "metadata"),
    "StorageVersionMigration": ("spec", "metadata"),
}


def ignoring(*reset: str) -> FieldSet:
    """Returns the fields without an owner, and those that a request resets."""
    return field_set.of_paths(*_UNOWNED, *reset)


class _BuiltIn:
    def __init__(self, target: KindVersion) -> None:
        self.api_version = target.api_version
        self.kind = target.kind
        self._target = target
        self._type = field_type(target.schema)
        self._has_status = "status" in target.entry.subresources
        self._main_ignored = ignoring(*["status"] * self._has_status)
        identity = {"apiVersion": target.api_version, "kind": target.kind}
        self._blank = {**schema.write({}, target.schema), **identity}
        self._status_ignored = ignoring(*_STATUS_RESETS.get(target.kind, ("spec",)))

    def _version(self, api_version: str) -> KindVersion | None:
        group, version = split_api_version(api_version)
        return self._target.entry.version(version) if group == self._target.group else None

    def field_type(self, api_version: str) -> FieldType | None:
        if api_version == self.api_version:
            return self._type
        target = self._version(api_version)
        return field_type(target.schema) if target else None

    def convert(self, obj: Object, api_version: str) -> Object:
        if obj.get("apiVersion") == api_version:
            return obj
        target = self._version(api_version)
        assert target is not None
        return schema.write(conversion.convert(obj, target.version), target.schema)

    def ignored(self, subresource: str) -> FieldSet:
        return self._status_ignored if subresource in ("status", "approval") else self._main_ignored

    def blank(self) -> Object:
        return self._blank


@cache
def built_in(target: KindVersion) -> TrackedKind:
    return _BuiltIn(target)
