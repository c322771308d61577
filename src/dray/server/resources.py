"""A resource: one version of a kind, as it is served.

Inside the server an object has hub form (api.intake); in the store it is a document of the storage version. A resource
knows the ways between the two and what its clients see. `BuiltIn` serves the kinds of the catalogue; custom kinds and
the second face of events have classes of their own with the same surface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dray.api import intake, schema, tables
from dray.api.catalogue import RESOURCE_GROUP, KindVersion
from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.tables.column import Column
from dray.server import documents, selection
from dray.server.fieldmanager import tracked_kinds
from dray.server.fieldmanager.tracked_kinds import TrackedKind
from dray.server.selection import Field


class Resource(Protocol):
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    short_names: Sequence[str]
    categories: Sequence[str]
    subresources: Sequence[str]
    storage_group: str
    storage_version: str
    # Deleting one is answered with the object as it was, not with a Status.
    returns_deleted: bool
    # Whether clients may send strategic merge patches; those need a type that is known: `schema`.
    strategic: bool
    schema: str
    # How much it takes to check an object, byte by byte; 1 is what the built-in kinds take.
    effort: int
    # The OpenAPI schema of a custom kind.
    custom_schema: Object | None
    # Whether an update may leave out metadata.resourceVersion.
    unconditional_update: bool
    # What clients of this version are told, if anything.
    deprecation: str | None
    key_prefix: str
    fields: Mapping[str, Field]
    columns: Sequence[Column]

    @property
    def api_version(self) -> str: ...

    def key(self, namespace: str, name: str) -> str: ...

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        """The object in hub form."""
        ...

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal: ...

    def prune(self, document: Object) -> Object:
        """The document without members the kind does not have."""
        ...

    def read(self, value: bytes) -> Object:
        """A stored document in hub form."""
        ...

    def encoder(self, obj: Object) -> documents.Encoder:
        """How an object in hub form is stored; revision 0 leaves its resourceVersion as it is."""
        ...

    def answer(self, obj: Object) -> Object:
        """An object in hub form as a client of this version gets it."""
        ...

    def present(self, value: bytes) -> bytes:
        """A stored document as a client of this version gets it."""
        ...

    def item(self, value: bytes) -> bytes:
        """The same, as an item of a list."""
        ...

    def row(self, obj: Object, now: str) -> list[Any]: ...

    @property
    def tracked(self) -> TrackedKind:
        """How the owners of its fields are tracked."""
        ...

    def tracked_form(self, obj: Object) -> Object:
        """An object in hub form, in a form that `tracked` reads."""
        ...


_OLD_SHAPES = frozenset({"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})
# (group, kind) of which a deletion is answered with a Status.
_DELETED_WITH_STATUS = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Event"),
        ("", "Node"),
        ("", "Secret"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("batch", "Job"),
        ("coordination.k8s.io", "Lease"),
        ("events.k8s.io", "Event"),
        ("policy", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("scheduling.k8s.io", "CompositePodGroup"),
        ("scheduling.k8s.io", "PodGroup"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("scheduling.k8s.io", "Workload"),
    }
)


def key_prefix(group: str, plural: str) -> str:
    return f"/{group}/{plural}/"


class BuiltIn:
    strategic = True
    effort = 1
    custom_schema: Object | None = None

    def __init__(self, target: KindVersion) -> None:
        entry = target.entry
        self.target = target
        self.group, self.version, self.plural, self.kind = target.group, target.version, target.plural, target.kind
        self.singular, self.list_kind, self.namespaced = entry.singular, entry.list_name, entry.namespaced
        self.short_names: Sequence[str] = entry.short_names
        self.categories: Sequence[str] = entry.categories
        self.subresources: Sequence[str] = entry.subresources
        self.storage_group, self.storage_version = entry.group, entry.storage
        self.schema = target.schema
        self.api_version = target.api_version
        self.returns_deleted = self._returns_deleted()
        self.unconditional_update = target.served.unconditional_update
        self.deprecation = target.deprecated
        self.key_prefix = key_prefix(self.group, self.plural)
        self.fields: Mapping[str, Field] = selection.fields(self.group, self.kind, namespaced=self.namespaced)
        self.columns: Sequence[Column] = tables.columns(entry)
        self.home = entry.hub
        self._at_home = self.home is target
        self._storage_api_version = f"{self.group}/{entry.storage}" if self.group else entry.storage
        self._stored_opening = documents.opening(self.kind, self._storage_api_version)
        self._opening = documents.opening(self.kind, self.api_version)
        self._tracked = tracked_kinds.built_in(target)
        self._reshaped = self.group == RESOURCE_GROUP and self.version == "v1beta1" and self.kind in _OLD_SHAPES

    def _returns_deleted(self) -> bool:
        if (self.group, self.kind, self.version) == (RESOURCE_GROUP, "DeviceTaintRule", "v1"):
            return False
        return (self.group, self.kind) not in _DELETED_WITH_STATUS

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else f"{self.key_prefix}{name}"

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return intake.create(document, self.target, place, rules, now=now)

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return intake.update(document, old, self.target, place, rules, now=now, subresource=subresource)

    def prune(self, document: Object) -> Object:
        return schema.read(document, self.target.schema)[0]

    def read(self, value: bytes) -> Object:
        obj: Object = documents.decode(value)
        obj["apiVersion"] = self.home.api_version
        return obj

    def encoder(self, obj: Object) -> documents.Encoder:
        return documents.Encoder(obj, self.kind, self._storage_api_version)

    def answer(self, obj: Object) -> Object:
        shown = obj if self._at_home else intake.answer(obj, self.target)
        return documents.ordered(shown, self.kind, self.api_version)

    def present(self, value: bytes) -> bytes:
        if self._reshaped:
            return documents.encode(self.answer(self.read(value)))
        if self.version == self.storage_version:
            return value
        return self._opening + value[len(self._stored_opening) :]

    def item(self, value: bytes) -> bytes:
        if self._reshaped:
            return b"{" + self.present(value)[len(self._opening) :]
        return b"{" + value[len(self._stored_opening) :]

    def row(self, obj: Object, now: str) -> list[Any]:
        return tables.row(self.target.entry, obj, now)

    @property
    def tracked(self) -> TrackedKind:
        return self._tracked

    def tracked_form(self, obj: Object) -> Object:
        return obj
