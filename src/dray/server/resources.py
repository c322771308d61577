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
# (group, kind) whose deletion is answered with a Status.
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
    # API versions of stored documents, and of objects in hub form.
    storage_api_version: str
    hub_api_version: str
    # True if a deletion is answered with the object instead of a Status.
    returns_deleted: bool
    # True if strategic merge patches are allowed, which need the type `schema`.
    strategic: bool
    schema: str
    # Relative cost of checking an object, by byte; 1 for built-in kinds.
    effort: int
    # The OpenAPI schema of a custom kind.
    custom_schema: Object | None = None
    # The selectableFields of a custom kind.
    selectable_fields: Sequence[str] = ()
    # True if an update may leave out metadata.resourceVersion.
    unconditional_update: bool
    # Deprecation warning for clients of this version, if any.
    deprecation: str | None
    # Warning for writers of a kind that nothing acts upon.
    stored_only: str = ""
    key_prefix: str
    fields: Mapping[str, Field]
    columns: Sequence[Column]
    # The tracked kind, for field management.
    tracked: TrackedKind

    # True if a webhook converts its objects between versions, which takes time: see `seen` and `storable`.
    converts = False

    @cached_property
    def group_kind(self) -> str:
        """Returns kind and group, as in `Job.batch`; kinds of the core group have no group."""
        return f"{self.kind}.{self.group}".removesuffix(".")

    async def seen(self, values: Sequence[bytes]) -> Sequence[bytes]:
        """Converts stored documents for `read` and `present`; raises an error if that fails."""
        return values

    async def storable(self, obj: Object) -> Object:
        """Converts an object in hub form for `encoder`; raises an error if that fails."""
        return obj

    async def in_version(self, objects: Sequence[Object], version: str) -> list[Object]:
        """Converts objects of any version to another one; only for kinds that `converts`."""
        raise NotImplementedError

    def is_current(self, value: bytes) -> bool:
        """Returns True if a document has the storage version; others are rewritten by the next update."""
        return True

    def key(self, namespace: str, name: str) -> str:
        return f"{self.key_prefix}{namespace}/{name}" if self.namespaced else f"{self.key_prefix}{name}"

    @abstractmethod
    def create(self, document: Object, place: Place, rules: Rules, now: str) -> Accepted | Refusal:
        """Returns the new object in hub form, or a refusal."""

    @abstractmethod
    def update(
        self, document: Object, old: Object, place: Place, rules: Rules, now: str, subresource: str
    ) -> Accepted | Refusal: ...

    @abstractmethod
    def decode(self, document: Object, now: str, gates: FeatureGates) -> Object | Refusal:
        """Returns the document in hub form with defaults, not validated, as mutating admission sees it."""

    @abstractmethod
    def prune(self, document: Object) -> Object:
        """Returns the document without unknown members."""

    def read(self, value: bytes) -> Object:
        """Returns a stored document in hub form."""
        obj: Object = documents.decode(value)
        obj["apiVersion"] = self.hub_api_version
        return obj

    def encoder(self, obj: Object) -> documents.Encoder:
        """Returns the encoder of an object in hub form; revision 0 leaves its resourceVersion as it is."""
        return documents.Encoder(obj, self.kind, self.storage_api_version)

    def answer(self, obj: Object) -> Object:
        """Returns an object in hub form as clients of this version see it."""
        return documents.ordered(obj, self.kind, self.api_version)

    @abstractmethod
    def present(self, value: bytes) -> bytes:
        """Returns a stored document as clients of this version see it."""

    def item(self, value: bytes) -> bytes:
        """Returns a stored document as an item of a list."""
        return self.present(value)

    def row(self, obj: Object, now: str) -> list[Any]:
        """Returns the cells of an object in a table."""
        return [column.cell(obj, now) for column in self.columns]

    def work(self, size: int, document: Object | None = None) -> int:
        """Returns the work of checking an object of this size; an update does not know the `document` yet."""
        return size * self.effort

    def tracked_form(self, obj: Object) -> Object:
        """Returns an object in hub form in the form that `tracked` reads."""
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
            # The selectors of a claim do not change, so an update of a claim compiles nothing.
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
    """Returns the name that a field of events has in the newer group."""
    first, dot, rest = name.partition(".")
    return _EVENT_NAMES.get(first, first) + dot + rest


class EventResource(BuiltIn):
    """Events of `events.k8s.io/v1`: stored like those of the core group, with other member names."""

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
        """Returns the work of checking an object of this size; an update does not know the `document` yet."""
        return size * self.effort

    def tracked_form(self, obj: Object) -> Object:
        return self.answer(obj)
