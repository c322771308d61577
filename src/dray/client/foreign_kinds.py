"""Kinds of other systems that dray works on: as resources, and as definitions for a server that has none of its own.

The definitions have the fields that dray understands; others are kept. They carry an annotation by which those are
recognized that dray serves itself: of others, another system may be at work, which writes their status.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from dray.api.objects import Object, annotations_of
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource
from dray.client.errors import AlreadyExists, ApiError
from dray.client.interface import GroupVersionResource

COSCHEDULING: Final = ServedResource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", namespaced=True, verbs=frozenset()
)
OWN: Final = "dray.dev/served"
_DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def definitions() -> tuple[Object, ...]:
    return (_pod_group(),)


async def define(client: ApiClient) -> None:
    """Makes the definitions that are not there."""
    for document in definitions():
        with suppress(AlreadyExists):
            await client.create(_DEFINITIONS, document)


async def is_own(client: ApiClient, kind: ServedResource) -> bool:
    """Whether the kind is served by a definition of dray, so that no other system writes its status."""
    try:
        found = await client.get(_DEFINITIONS, kind.qualified)
    except ApiError:
        return False
    return annotations_of(found).get(OWN) == "true"


def _pod_group() -> Object:
    count = {"type": "integer", "format": "int32", "minimum": 0}
    amounts = {
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        },
    }
    spec = {
        "minMember": {**count, "minimum": 1},
        "minResources": amounts,
        "scheduleTimeoutSeconds": count,
    }
    status = {
        "phase": {"type": "string"},
        "occupiedBy": {"type": "string"},
        "scheduleStartTime": {"type": "string", "format": "date-time", "nullable": True},
        **dict.fromkeys(("running", "succeeded", "failed"), count),
    }
    columns = [
        {"name": name, "type": kind, "jsonPath": path}
        for name, kind, path in (
            ("Phase", "string", ".status.phase"),
            ("MinMember", "integer", ".spec.minMember"),
            ("Running", "integer", ".status.running"),
            ("Succeeded", "integer", ".status.succeeded"),
            ("Failed", "integer", ".status.failed"),
            ("Age", "date", ".metadata.creationTimestamp"),
        )
    ]
    return _definition(COSCHEDULING, ("pg", "pgs"), _open(spec=_open(**spec), status=_open(**status)), columns)


def _open(**properties: Any) -> Object:
    """An object with these members, and others that are kept."""
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}


def _definition(kind: ServedResource, short: tuple[str, ...], schema: Object, columns: list[Object]) -> Object:
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "shortNames": list(short)}
    # The server wants to be told that somebody answers for a group of kubernetes-sigs.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified, "annotations": {OWN: "true", **approved}},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
