"""A CustomResourceDefinition, read once into what the server asks of it.

A `CustomVersion` is one version of a custom kind as it is served. Definitions given here have been accepted
(definition_rules.py), so their shape can be relied on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dray.api.objects import Object, mapping
from dray.server.custom import naming

Schema = dict[str, Any]


class ColumnDefinition(NamedTuple):
    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
AGE_COLUMN = ColumnDefinition("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True, eq=False)
class CustomVersion:
    group: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    namespaced: bool
    name: str
    served: bool
    storage: bool
    schema: Schema = field(repr=False)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # True if the kind has a status subresource.
    status: bool = False
    # The paths of the scale subresource; None if the kind has none.
    scale: Object | None = None
    columns: tuple[ColumnDefinition, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    deprecation: str | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def subresources(self) -> tuple[str, ...]:
        return ("status",) * self.status + ("scale",) * (self.scale is not None)


def set_defaults(definition: Object) -> None:
    """Fills in the defaults of a definition."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind"):
        names["listKind"] = f"{kind}List" if kind else ""
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    webhook = mapping(mapping(spec["conversion"]).get("webhook"))
    service = mapping(webhook.get("clientConfig")).get("service")
    if isinstance(service, dict):
        service.setdefault("port", 443)


def versions(definition: Object) -> tuple[CustomVersion, ...]:
    """Returns all versions of an accepted definition, served or not."""
    spec = definition["spec"]
    accepted = mapping(mapping(definition.get("status")).get("acceptedNames"))
    names = accepted if accepted.get("plural") and accepted.get("kind") else spec["names"]
    kind: str = names["kind"]
    return tuple(
        CustomVersion(
            group=spec["group"],
            kind=kind,
            list_kind=names.get("listKind") or f"{kind}List",
            plural=names["plural"],
            singular=names.get("singular") or kind.lower(),
            namespaced=spec["scope"] == "Namespaced",
            name=version["name"],
            served=bool(version.get("served")),
            storage=bool(version.get("storage")),
            schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            status=(version.get("subresources") or {}).get("status") is not None,
            scale=(version.get("subresources") or {}).get("scale"),
            columns=_columns(version),
            selectable_fields=tuple(item["jsonPath"] for item in version.get("selectableFields") or ()),
            deprecation=_deprecation(spec["group"], kind, version),
        )
        for version in spec["versions"]
    )


def conversion_webhook(definition: Object) -> Object | None:
    """Returns the conversion webhook of an accepted definition; None if conversion only changes the apiVersion."""
    given = definition["spec"].get("conversion") or {}
    return given["webhook"] if given.get("strategy") == "Webhook" else None


def _columns(version: Object) -> tuple[ColumnDefinition, ...]:
    given = version.get("additionalPrinterColumns")
    if not given:
        return (AGE_COLUMN,)
    return tuple(
        ColumnDefinition(
            column["name"],
            column["type"],
            column["jsonPath"],
            column.get("format", ""),
            column.get("description", ""),
            column.get("priority", 0),
        )
        for column in given
    )


def _deprecation(group: str, kind: str, version: Object) -> str | None:
    if not version.get("deprecated"):
        return None
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"


def accepted_status(definition: Object, others: naming.Taken, now: str) -> Object:
    """Returns the status of a definition: its accepted names and stored versions."""
    status = dict(definition.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    current = next(version["name"] for version in definition["spec"]["versions"] if version.get("storage"))
    names, reason, message = naming.accept(definition["spec"]["names"], status.get("acceptedNames") or {}, others)
    return {
        **status,
        "conditions": naming.conditions(status.get("conditions") or (), reason, message, now),
        "acceptedNames": {"plural": "", "kind": "", **names},
        "storedVersions": stored if current in stored else [*stored, current],
    }


def terminate(definition: Object, now: str) -> None:
    """Marks a deleted definition as terminating; it stays until its objects are gone."""
    finalizers = definition["metadata"].setdefault("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    status = definition.setdefault("status", {})
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "Terminating"]
    ending = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status["conditions"] = [*others, ending]
