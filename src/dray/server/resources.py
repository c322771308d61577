"""A resource: one version of a kind, as it is served.

Inside the server an object has hub form (api.intake); in the store it is a document of the storage version. A resource
knows the ways between the two and what its clients see. `BuiltIn` serves the kinds of the catalogue; custom kinds and
the second face of events have classes of their own with the same surface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from dray.api import conversion, intake, schema, tables
from dray.api.catalogue import ADMISSION_GROUP, RESOURCE_GROUP, KindVersion, find
from dray.api.gates import FeatureGates
from dray.api.intake import Accepted, Place, Refusal
from dray.api.kind import VERBS
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.tables.column import Column
from dray.server import compilation, documents, selection
from dray.server.fieldmanager import tracked_kinds
from dray.server.fieldmanager.tracked_kinds import TrackedKind
from dray.server.selection import Field
from dray.server.worker import AT_ONCE

_WITH_SELECTORS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
# (group, kind) of which a deletion is answered with a Status.
_DELETED_WITH_STATUS = frozenset(
    {
        ("", "ConfigMap"),
        ("", "Endpoints"),
        ("", "Event"),
        ("", "LimitRange"),
        ("", "Node"),
        ("", "ReplicationController"),
        ("", "Secret"),
        (ADMISSION_GROUP, "ValidatingAdmissionPolicy"),
        (ADMISSION_GROUP, "ValidatingAdmissionPolicyBinding"),
        (ADMISSION_GROUP, "MutatingAdmissionPolicy"),
        (ADMISSION_GROUP, "MutatingAdmissionPolicyBinding"),
        (ADMISSION_GROUP, "ValidatingWebhookConfiguration"),
        (ADMISSION_GROUP, "MutatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("apps", "ControllerRevision"),
        ("apps", "DaemonSet"),
        ("apps", "StatefulSet"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "CronJob"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("batch", "Job"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("certificates.k8s.io", "PodCertificateRequest"),
        ("coordination.k8s.io", "Lease"),
        ("coordination.k8s.io", "LeaseCandidate"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("events.k8s.io", "Event"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "Ingress"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("scheduling.k8s.io", "CompositePodGroup"),
        ("scheduling.k8s.io", "PodGroup"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("scheduling.k8s.io", "Workload"),
        ("storage.k8s.io", "CSIStorageCapacity"),
        ("storagemigration.k8s.io", "StorageVersionMigration"),
    }
)
# core/v1 → events.k8s.io/v1
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_EVENT_NAMES = {new: old for old, new in _EVENT_NAMES.items()}
_EVENT_ROOT = ("kind", "apiVersion")


class Resource(ABC):
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
    verbs: Sequence[str] = VERBS
    api_version: str
    # Of stored documents, and of objects in hub form.
    storage_api_version: str
    hub_api_version: str
    # Deleting one is answered with the object as it was, not with a Status.
    returns_deleted: bool
    # Whether clients may send strategic merge patches; those need a type that is known: `schema`.
    strategic: bool
    schema: str
    # How much it takes to check an object, byte by byte; 1 is what the built-in kinds take.
    effort: int
    # The OpenAPI schema of a custom kind.
    custom_schema: Object | None = None
    # The paths that the definition of a custom kind lets clients select by.
    selectable_fields: Sequence[str] = ()
    # Whether an update may leave out metadata.resourceVersion.
    unconditional_update: bool
    # What clients of this version are told, if anything.
    deprecation: str | None
    # What whoever writes one is told of a kind that nothing acts upon.
    stored_only: str = ""
    key_prefix: str
    fields: Mapping[str, Field]
    columns: Sequence[Column]
    # How the owners of its fields are tracked.
    tracked: TrackedKind

    # Whether somebody else converts its objects between versions, for which time passes: see `seen` and `storable`.
    converts = False

    @cached_property
    def group_kind(self) -> str:
        """The kind with its group, as in `Job.batch`; kinds of the core group have none."""
        return f"{self.kind}.{self.group}".removesuffix(".")

    async def seen(self, values: Sequence[bytes]) -> Sequence[bytes]:
        """Stored documents in a form that `read` and `present` take; raises where they cannot be converted."""
        return values

    async def storable(self, obj: Object) -> Object:
        """An object in hub form, in a form that `encoder` takes; raises where it cannot be converted."""
        return obj

    async def in_version(self, objects: Sequence[Object], version: str) -> list[Object]:
        """Objects in whatever version they are, in another one; asked only of what `converts`."""
        raise NotImplementedError

    def is_current(self, value: bytes) -> bool:
        """Whether a document is stored in the storage version; others are written anew at the next update."""
        return True

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else f"{self.key_prefix}{name}"

    @abstractmethod
    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        """The object in hub form."""

    @abstractmethod
    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal: ...

    @abstractmethod
    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        """The document in hub form, with defaults and not validated: what mutating admission sees."""

    @abstractmethod
    def prune(self, document: Object) -> Object:
        """The document without members the kind does not have."""

    def read(self, value: bytes) -> Object:
        """A stored document in hub form."""
        obj: Object = documents.decode(value)
        obj["apiVersion"] = self.hub_api_version
        return obj

    def encoder(self, obj: Object) -> documents.Encoder:
        """How an object in hub form is stored; revision 0 leaves its resourceVersion as it is."""
        return documents.Encoder(obj, self.kind, self.storage_api_version)

    def answer(self, obj: Object) -> Object:
        """An object in hub form as a client of this version gets it."""
        return documents.ordered(obj, self.kind, self.api_version)

    @abstractmethod
    def present(self, value: bytes) -> bytes:
        """A stored document as a client of this version gets it."""

    def item(self, value: bytes) -> bytes:
        """The same, as an item of a list."""
        return self.present(value)

    def row(self, obj: Object, now: str) -> list[Any]:
        """The cells of an object in a table."""
        return [column.cell(obj, now) for column in self.columns]

    def work(self, size: int, document: Object | None = None) -> int:
        """How much it takes to check an object of so many bytes; an update does not have the `document` yet."""
        return size * self.effort

    def tracked_form(self, obj: Object) -> Object:
        """An object in hub form, in a form that `tracked` reads."""
        return obj


def key_prefix(group: str, plural: str) -> str:
    return f"/{group}/{plural}/"


class BuiltIn(Resource):
    strategic = True
    effort = 1

    def __init__(self, target: KindVersion) -> None:
        entry = target.entry
        self.target = target
        self.group, self.version, self.plural, self.kind = target.group, target.version, target.plural, target.kind
        self.singular, self.list_kind, self.namespaced = entry.singular, entry.list_name, entry.namespaced
        self.short_names, self.categories, self.subresources = entry.short_names, entry.categories, entry.subresources
        self.schema, self.api_version, self.hub_api_version = target.schema, target.api_version, entry.hub.api_version
        self.storage_api_version = entry.by_version[entry.storage].api_version
        self.returns_deleted = self._returns_deleted()
        self.verbs = entry.verbs
        self.unconditional_update = target.served.unconditional_update
        self.deprecation, self.stored_only = target.deprecated, entry.stored_only
        self.key_prefix = key_prefix(self.group, self.plural)
        self.fields = selection.fields(self.group, self.kind, namespaced=self.namespaced)
        self.columns = tables.columns(entry)
        self._stored_opening = documents.opening(self.kind, self.storage_api_version)
        self._opening = documents.opening(self.kind, self.api_version)
        self.tracked = tracked_kinds.built_in(target)
        self._reshaped = conversion.has_old_shape(target)

    def work(self, size: int, document: Object | None = None) -> int:
        if self.group != RESOURCE_GROUP or self.kind not in _WITH_SELECTORS:
            return size
        if document is None:
            # The selectors of a claim do not change, so an update of one compiles nothing.
            compiles = self.kind != "ResourceClaim"
        else:
            compiles = size > AT_ONCE or compilation.in_expressions(document)
        return max(size, AT_ONCE + 1) if compiles else size

    def _returns_deleted(self) -> bool:
        if (self.group, self.kind, self.version) == (RESOURCE_GROUP, "DeviceTaintRule", "v1"):
            return False
        return (self.group, self.kind) not in _DELETED_WITH_STATUS

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return intake.create(document, self.target, place, rules, now=now)

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return intake.update(document, old, self.target, place, rules, now=now, subresource=subresource)

    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        return intake.decode(document, self.target, now=now, gates=gates)

    def prune(self, document: Object) -> Object:
        return schema.read(document, self.target.schema)[0]

    def answer(self, obj: Object) -> Object:
        return super().answer(obj if self.api_version == self.hub_api_version else intake.answer(obj, self.target))

    def present(self, value: bytes) -> bytes:
        if self._reshaped:
            return documents.encode(self.answer(self.read(value)))
        if self.api_version == self.storage_api_version:
            return value
        return self._opening + value[len(self._stored_opening) :]

    def item(self, value: bytes) -> bytes:
        if self._reshaped:
            return b"{" + self.present(value)[len(self._opening) :]
        return b"{" + value[len(self._stored_opening) :]


def _renamed_event(obj: Object, names: dict[str, str], api_version: str) -> Object:
    return {
        **{names.get(name, name): value for name, value in obj.items() if name not in _EVENT_ROOT},
        "kind": "Event",
        "apiVersion": api_version,
    }


def _event_field(name: str) -> str:
    """What a field that events are selected by is called in the newer group."""
    first, dot, rest = name.partition(".")
    return _EVENT_NAMES.get(first, first) + dot + rest


class EventResource(BuiltIn):
    """Events of `events.k8s.io/v1`: what the core group stores, with other names for the same members."""

    def __init__(self, target: KindVersion) -> None:
        super().__init__(target)
        core = find("v1", "Event")
        assert core is not None
        self._core = BuiltIn(core)
        self.storage_api_version = self.hub_api_version = "v1"
        self.key_prefix = key_prefix("", self.plural)
        self.columns = self._core.columns
        self.fields = {_event_field(name): read for name, read in self._core.fields.items() if name != "source"}

    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        return self._in_core_form(super().create(document, place, rules, now))

    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal:
        return self._in_core_form(super().update(document, self._new(old), place, rules, now, subresource))

    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        decoded = super().decode(document, now, gates)
        verdict = decoded if isinstance(decoded, Refusal) else self._in_core_form(Accepted(decoded))
        return verdict if isinstance(verdict, Refusal) else verdict.object

    def _in_core_form(self, verdict: Accepted | Refusal) -> Accepted | Refusal:
        if isinstance(verdict, Refusal):
            return verdict
        core = schema.write(_renamed_event(verdict.object, _CORE_EVENT_NAMES, "v1"), self._core.schema)
        return Accepted(core, sent=verdict.object)

    def _new(self, core: Object) -> Object:
        return schema.write(_renamed_event(core, _EVENT_NAMES, self.api_version), self.schema)

    def answer(self, obj: Object) -> Object:
        return documents.ordered(self._new(obj), self.kind, self.api_version)

    def present(self, value: bytes) -> bytes:
        return documents.encode(self.answer(self.read(value)))

    def item(self, value: bytes) -> bytes:
        return b"{" + self.present(value)[len(self._opening) :]

    def work(self, size: int, document: Object | None = None) -> int:
        """How much it takes to check an object of so many bytes; an update does not have the `document` yet."""
        return size * self.effort

    def tracked_form(self, obj: Object) -> Object:
        return self.answer(obj)
