"""A resource: one version of a kind, as it is served.

Inside the server an object has hub form (api.intake); in the store it is a document of the storage version. A resource
knows the ways between the two and what its clients see. `BuiltIn` serves the kinds of the catalogue; custom kinds and
the second face of events have classes of their own with the same surface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dray.api import intake, schema, tables
from dray.api.catalogue import RESOURCE_GROUP, SCHEDULING_GROUP, KindVersion
from dray.api.intake import Accepted, Place, Refusal
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.tables.column import Column
from dray.api.twins import Twins
from dray.server import documents, field_selectors
from dray.server.field_selectors import Field
from dray.server.fieldmanager import tracked_kinds
from dray.server.fieldmanager.tracked_kinds import TrackedKind


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
    # Clients of the built-in kinds know what the items of a list are; others are told in each item.
    bare_items: bool
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


# Kinds to which creation adds what no client sent: the part it adds members to, and the list in it that it adds to.
_FILLED_IN = {("", "Pod"): ("spec", "tolerations"), (SCHEDULING_GROUP, "PodGroup"): ("metadata", "finalizers")}
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
    bare_items = True
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
        self.fields: Mapping[str, Field] = field_selectors.fields(self.group, self.kind, namespaced=self.namespaced)
        self.columns: Sequence[Column] = tables.columns(entry)
        self.home = intake.hub(entry)
        self._at_home = self.home == target
        self._filled_in = _FILLED_IN.get((self.group, self.kind))
        self._storage_api_version = f"{self.group}/{entry.storage}" if self.group else entry.storage
        self._stored_opening = documents.opening(self.kind, self._storage_api_version)
        self._opening = documents.opening(self.kind, self.api_version)
        self._tracked = tracked_kinds.built_in(target)
        self._twins = Twins.of(target)
        self._reshaped = self.group == RESOURCE_GROUP and self.version == "v1beta1" and self.kind in _OLD_SHAPES

    def _returns_deleted(self) -> bool:
        if (self.group, self.kind, self.version) == (RESOURCE_GROUP, "DeviceTaintRule", "v1"):
            return False
        return (self.group, self.kind) not in _DELETED_WITH_STATUS

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else f"{self.key_prefix}{name}"

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        key = self._twins.key(document) if self._twins is not None else None
        if self._twins is None or key is None:
            return self._create(document, place, rules, now)
        made = self._twins.create(key, document, place, rules)
        if made is not None:
            return made
        verdict = self._create(document, place, rules, now)
        if isinstance(verdict, Accepted):
            self._twins.learn(key, rules, verdict)
        return verdict

    def _create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        decoded = intake.decode(document, self.target, now=now, gates=rules.gates)
        if isinstance(decoded, Refusal):
            return decoded
        sent = self._filled_in and _lists_copied(decoded[self._filled_in[0]])
        verdict = intake.create_decoded(decoded, self.target, place, rules)
        if isinstance(verdict, Refusal):
            return verdict
        obj = schema.written(verdict.object, self.home.schema)
        return Accepted(obj, sent=_without_added(obj, *self._filled_in, sent) if self._filled_in and sent else None)

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        same = False
        if self._at_home:
            document, same = _without_known(document, old, self._untouched(subresource))
        return intake.update(
            document,
            old,
            self.target,
            place,
            rules,
            now=now,
            subresource=subresource,
            written=True,
            same_metadata=same,
        )

    def _untouched(self, subresource: str) -> str:
        """The part of an object that an update keeps, whatever the client sends."""
        if "status" not in self.subresources:
            return ""
        return "spec" if subresource == "status" else "status"

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


def _lists_copied(part: Object) -> Object:
    return {name: list(value) if isinstance(value, list) else value for name, value in part.items()}


def _without_added(obj: Object, part: str, added_to: str, sent: Object) -> Object:
    """A written object with only those members in a part that were sent, and with one list as it was sent."""
    kept = {name: value for name, value in obj[part].items() if sent.get(name, []) != []}
    if added_to in kept:
        kept[added_to] = sent[added_to]
    return {**obj, part: kept}


def _without_known(document: Object, old: Object, untouched: str) -> tuple[Object, bool]:
    """The document without what is as it is stored and stays so: reading it, to put it aside then, costs the most.

    And whether its metadata are among that.
    """
    metadata, before = document.get("metadata"), old["metadata"]
    same = False
    if isinstance(metadata, dict):
        # Who leaves out the record of owners leaves it as it is.
        managed = {"managedFields": before["managedFields"]} if "managedFields" in before else {}
        same = {**managed, **metadata} == before
        if not same and managed and metadata.get("managedFields", ()) == managed["managedFields"]:
            metadata = {name: value for name, value in metadata.items() if name != "managedFields"}
            document = {**document, "metadata": metadata}
    if same:
        document = {name: value for name, value in document.items() if name != "metadata"}
    if untouched in document and document[untouched] == old.get(untouched):
        document = {name: value for name, value in document.items() if name != untouched}
    return document, same
