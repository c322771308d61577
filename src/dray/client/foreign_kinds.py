"""Kinds of other systems that dray works on: as resources, and as definitions for a server that has none of its own.

The definitions have the fields that dray understands; others are kept. `dray up` serves them unless the kinds are
defined. Where they are objects, they are recognized by an annotation. Of other definitions another system may be at
work, which writes the status of their objects.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, annotations_of
from dray.client.api import ApiClient
from dray.client.discovery import ServedResource, serves
from dray.client.errors import ApiError, NotFound
from dray.client.interface import GroupVersionResource

COSCHEDULING: Final = ServedResource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", namespaced=True, verbs=frozenset()
)
COMPUTE_CLASS: Final = ServedResource(
    "cloud.google.com", "v1", "computeclasses", "ComputeClass", namespaced=False, verbs=frozenset()
)
NODE_POOL: Final = ServedResource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False, verbs=frozenset())
KAI_GROUP: Final = ServedResource(
    "scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", namespaced=True, verbs=frozenset()
)
KAI_TOPOLOGY: Final = ServedResource(
    "kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False, verbs=frozenset()
)
KUEUE_TOPOLOGY: Final = ServedResource(
    "kueue.x-k8s.io", "v1beta2", "topologies", "Topology", namespaced=False, verbs=frozenset()
)
GROUPS: Final = {f"{kind.kind}.{kind.group}": kind for kind in (COSCHEDULING, KAI_GROUP, KAI_TOPOLOGY, KUEUE_TOPOLOGY)}
"""Kinds of groups and of topologies by the scheduler's names for them."""
_KUEUE: Final = "kueue.x-k8s.io"
KUEUE: Final = {
    kind: ServedResource(_KUEUE, "v1beta2", plural, kind, namespaced=kind == "LocalQueue", verbs=frozenset())
    for kind, plural in (
        ("ResourceFlavor", "resourceflavors"),
        ("Cohort", "cohorts"),
        ("ClusterQueue", "clusterqueues"),
        ("LocalQueue", "localqueues"),
        ("WorkloadPriorityClass", "workloadpriorityclasses"),
    )
}
KAI_QUEUE: Final = ServedResource("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False, verbs=frozenset())
OWN: Final = "dray.dev/served"
_DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def definitions() -> tuple[Object, ...]:
    return (_pod_group(), _kai_group(), *_topologies(), *_queues(), _compute_class(), _kai_queue())


async def is_own(client: ApiClient, kind: ServedResource) -> bool:
    """Returns True if the server has dray's definition of the kind, so that no other system writes its status."""
    if not await serves(client, kind):
        return False
    try:
        found = await client.get(_DEFINITIONS, kind.qualified)
    except NotFound:
        # The server provides the kind itself.
        return True
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


def _kai_group() -> Object:
    count = {"type": "integer", "format": "int32", "minimum": 0, "nullable": True}
    text = {"type": "string"}
    levels = dict.fromkeys(("topology", "requiredTopologyLevel", "preferredTopologyLevel"), text)
    least = {"minMember": count, "minSubGroup": count, "topologyConstraint": _open(**levels)}
    spec = {
        **least,
        **dict.fromkeys(("queue", "priorityClassName"), text),
        "preemptibility": {"type": "string", "enum": ["preemptible", "non-preemptible"]},
        "subGroups": _list(_open(name=text, parent=text, **least)),
    }
    columns = [
        {"name": "MinMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "Queue", "type": "string", "jsonPath": ".spec.queue"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    return _definition(KAI_GROUP, (), _open(spec=_open(**spec), status=_open()), columns)


def _topologies() -> tuple[Object, ...]:
    text = {"type": "string", "maxLength": 316}
    levels = {**_list(_open(nodeLabel=text, alias=text)), "minItems": 1, "maxItems": 16}
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    schema = _open(spec=_open(levels=levels), status=_open())
    return tuple(_definition(kind, (), schema, [age]) for kind in (KAI_TOPOLOGY, KUEUE_TOPOLOGY))


def _queues() -> tuple[Object, ...]:
    amount = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    text = {"type": "string"}
    limits = dict.fromkeys(("nominalQuota", "borrowingLimit", "lendingLimit"), amount)
    flavor = _open(name=text, resources=_list(_open(name=text, **limits)))
    groups = _list(_open(coveredResources=_list(text), flavors=_list(flavor)))
    stop = {"type": "string", "enum": ["None", "Hold", "HoldAndDrain"]}
    fair = _open(weight=amount)
    strategy = {"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]}
    labels = {"type": "object", "additionalProperties": text}
    specs: dict[str, Object] = {
        "ResourceFlavor": {"nodeLabels": labels, "nodeTaints": _list(_open()), "tolerations": _list(_open())},
        "Cohort": {"parentName": text, "resourceGroups": groups, "fairSharing": fair},
        "ClusterQueue": {
            "cohortName": text,
            "resourceGroups": groups,
            "queueingStrategy": strategy,
            "namespaceSelector": _open(),
            "stopPolicy": stop,
            "preemption": _open(),
            "fairSharing": fair,
            "flavorFungibility": _open(),
            "admissionScope": _open(admissionMode=text),
        },
        "LocalQueue": {"clusterQueue": text, "stopPolicy": stop, "fairSharing": fair},
    }
    short = {"ResourceFlavor": ("flavor", "rf"), "Cohort": ("co",), "ClusterQueue": ("cq",), "LocalQueue": ("lq",)}
    columns = {
        "ClusterQueue": [{"name": "Cohort", "type": "string", "jsonPath": ".spec.cohortName"}],
        "LocalQueue": [{"name": "ClusterQueue", "type": "string", "jsonPath": ".spec.clusterQueue"}],
    }
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    value = _open(value={"type": "integer", "format": "int32"}, description=text)
    priority = _definition(
        KUEUE["WorkloadPriorityClass"], (), value, [{"name": "Value", "type": "integer", "jsonPath": ".value"}, age]
    )
    return priority, *(
        _definition(KUEUE[kind], short[kind], _open(spec=_open(**spec), status=_open()), [*columns.get(kind, []), age])
        for kind, spec in specs.items()
    )


def _compute_class() -> Object:
    number = {"type": "integer", "minimum": 0}
    text, flag = {"type": "string"}, {"type": "boolean"}
    rule = _open(
        priorityScore={**number, "minimum": 1, "maximum": 1000},
        nodepools=_list(text),
        machineFamily=text,
        machineType=text,
        minCores=number,
        minMemoryGb=number,
        spot=flag,
        gpu=_open(type=text, count=number, driverVersion=text),
        tpu=_open(type=text, count=number, topology=text),
        location=_open(zones=_list(text)),
        nodeLabels={"type": "object", "additionalProperties": text},
    )
    unsatisfiable = {"type": "string", "enum": ["ScaleUpAnyway", "DoNotScaleUp"], "default": "DoNotScaleUp"}
    spec = _open(priorities=_list(rule), whenUnsatisfiable=unsatisfiable, nodePoolConfig=_open())
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return _definition(COMPUTE_CLASS, (), _open(spec=spec, status=_open()), [age])


def _kai_queue() -> Object:
    number, text = {"type": "number"}, {"type": "string"}
    amounts = _open(**dict.fromkeys(("quota", "limit", "overQuotaWeight"), number))
    spec = {
        "displayName": text,
        "parentQueue": text,
        "priority": {"type": "integer"},
        "resources": _open(gpu=amounts, cpu=amounts, memory=amounts),
        "preemptMinRuntime": text,
        "reclaimMinRuntime": text,
    }
    columns = [
        {"name": name, "type": type_, "jsonPath": path}
        for name, type_, path in (
            ("Parent", "string", ".spec.parentQueue"),
            ("Priority", "integer", ".spec.priority"),
            ("Quota", "number", ".spec.resources.gpu.quota"),
            ("GPUs", "string", ".status.allocated.gpu"),
            ("Requested", "string", ".status.requested.gpu"),
            ("Age", "date", ".metadata.creationTimestamp"),
        )
    ]
    return _definition(KAI_QUEUE, (), _open(spec=_open(**spec), status=_open()), columns)


def _list(items: Object) -> Object:
    return {"type": "array", "items": items}


def _open(**properties: Any) -> Object:
    """Returns the schema of an object with these members; other members are kept."""
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
    # The server requires this approval for groups of kubernetes-sigs.
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
