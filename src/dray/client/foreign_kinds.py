"""Kinds of other systems that dray works on: as resources, and as definitions for a server that has none of its own.

The definitions have the fields that dray understands; others are kept. They carry an annotation by which those are
recognized that dray serves itself: of others, another system may be at work, which writes their status.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from dray.api.objects import Object, annotations_of
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource, serves
from dray.client.errors import AlreadyExists, ApiError
from dray.client.interface import GroupVersionResource

COSCHEDULING: Final = ServedResource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", namespaced=True, verbs=frozenset()
)
_KUEUE: Final = "kueue.x-k8s.io"
KUEUE: Final = {
    kind: ServedResource(_KUEUE, "v1beta2", plural, kind, namespaced=kind == "LocalQueue", verbs=frozenset())
    for kind, plural in (
        ("ResourceFlavor", "resourceflavors"),
        ("Cohort", "cohorts"),
        ("ClusterQueue", "clusterqueues"),
        ("LocalQueue", "localqueues"),
    )
}
OWN: Final = "dray.dev/served"
_DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def definitions() -> tuple[Object, ...]:
    return (_pod_group(), *_queues())


async def define(client: ApiClient) -> None:
    """Makes the definitions that are not there."""
    for document in definitions():
        with suppress(AlreadyExists):
            await client.create(_DEFINITIONS, document)


async def is_own(client: ApiClient, kind: ServedResource) -> bool:
    """Whether the kind is served by a definition of dray, so that no other system writes its status."""
    if not await serves(client, kind):
        return False
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


def _queues() -> tuple[Object, ...]:
    amount = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    text = {"type": "string"}
    limits = dict.fromkeys(("nominalQuota", "borrowingLimit", "lendingLimit"), amount)
    flavor = _open(name=text, resources=_list(_open(name=text, **limits)))
    groups = _list(_open(coveredResources=_list(text), flavors=_list(flavor)))
    stop = {"type": "string", "enum": ["None", "Hold", "HoldAndDrain"]}
    strategy = {"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]}
    labels = {"type": "object", "additionalProperties": text}
    specs: dict[str, Object] = {
        "ResourceFlavor": {"nodeLabels": labels},
        "Cohort": {"parentName": text, "resourceGroups": groups},
        "ClusterQueue": {
            "cohortName": text,
            "resourceGroups": groups,
            "queueingStrategy": strategy,
            "namespaceSelector": _open(),
            "stopPolicy": stop,
        },
        "LocalQueue": {"clusterQueue": text, "stopPolicy": stop},
    }
    short = {"ResourceFlavor": ("flavor", "rf"), "Cohort": ("co",), "ClusterQueue": ("cq",), "LocalQueue": ("lq",)}
    columns = {
        "ClusterQueue": [{"name": "Cohort", "type": "string", "jsonPath": ".spec.cohortName"}],
        "LocalQueue": [{"name": "ClusterQueue", "type": "string", "jsonPath": ".spec.clusterQueue"}],
    }
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return tuple(
        _definition(KUEUE[kind], short[kind], _open(spec=_open(**spec), status=_open()), [*columns.get(kind, []), age])
        for kind, spec in specs.items()
    )


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


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
    # The server wants to be told that somebody answers for groups of kubernetes-sigs.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified, "annotations": {OWN: "true", **approved}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }
