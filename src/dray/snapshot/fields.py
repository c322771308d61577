"""Says which fields of each kind a snapshot keeps: those that the scheduler and the explanations read, and no others.

Fields that no list names are left out. So environment variables, commands, arguments, volumes with secrets, messages of
containers, opaque parameters of drivers and annotations of other programs are never in a file. All labels are kept,
because selectors may name any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.allocation.alignment import MATCH_ATTRIBUTE
from dray.api import pod_queues, volumes
from dray.api.objects import Object, mapping
from dray.api.pods import MIRROR_ANNOTATION
from dray.api.resource_claims import EXTENDED_CLAIM_ANNOTATION
from dray.scheduling.groups import kai
from dray.scheduling.groups import kueue as kueue_groups
from dray.scheduling.model import making_room
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue

Allowed = Mapping[str, Any]
"""The members to keep: True keeps the whole value, and a mapping says what to keep of a mapping or of list items."""

ANNOTATIONS: Final = frozenset(
    (
        EXTENDED_CLAIM_ANNOTATION,
        MATCH_ATTRIBUTE,
        MIRROR_ANNOTATION,
        kai.ANNOTATION,
        kai.MIN_MEMBER,
        kai.STALENESS,
        kai_queue.PREEMPTIBILITY,
        kai_queue.PREEMPTION_DELAY,
        kueue.HALF_LIFE,
        kueue.SAMPLING,
        kueue.STRATEGIES,
        kueue.UNCOVERED_CLASSES,
        kueue_groups.COUNT,
        kueue_groups.FAST,
        kueue_groups.PODSET_GROUP,
        kueue_groups.SERVING,
        kueue_groups.SLICE_SIZE,
        making_room.ANNOTATION,
        pod_queues.RECORD,
        volumes.BIND_COMPLETED,
        volumes.SELECTED_NODE,
        "batch.kubernetes.io/job-completion-index",
        "kai.scheduler/segment-size",
        "kai.scheduler/segment-topology-preferred-placement",
        "kai.scheduler/segment-topology-required-placement",
        "kai.scheduler/topology",
        "kai.scheduler/topology-preferred-placement",
        "kai.scheduler/topology-required-placement",
        "volume.beta.kubernetes.io/storage-class",
        *kai.FRACTIONS,
        *kueue_groups.TOPOLOGY,
    )
)
"""Annotations that the scheduler reads. Others of KAI are kept by name, without their value."""

_METADATA: Final = dict.fromkeys(
    (
        "name",
        "namespace",
        "generateName",
        "uid",
        "generation",
        "resourceVersion",
        "labels",
        "ownerReferences",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ),
    True,
)
_SPEC: Final = {"spec": True}
_CONDITIONS: Final = dict.fromkeys(
    ("type", "status", "reason", "observedGeneration", "lastTransitionTime", "lastProbeTime"), True
)
_SAID: Final = {**_CONDITIONS, "message": True}
_MESSAGES: Final = ("PodScheduled", "PodGroupInitiallyScheduled", "DisruptionTarget", "Failed", "ReplicaFailure")
"""Conditions whose message explanations repeat: schedulers and controllers of Kubernetes wrote it."""
_CONFIG: Final = {"requests": True, "opaque": {"driver": True}, "source": True}
_CLAIM_SPEC: Final = {"devices": {"requests": True, "constraints": True, "config": _CONFIG}}
_CONTAINER: Final = dict.fromkeys(("name", "image", "resources", "ports", "restartPolicy", "resizePolicy"), True)
_STATE: Final = {
    "waiting": {"reason": True},
    "running": {"startedAt": True},
    "terminated": {"exitCode": True, "reason": True, "startedAt": True, "finishedAt": True},
}
_CONTAINER_STATUS: Final = {
    **dict.fromkeys(("name", "ready", "started", "restartCount", "resources", "allocatedResources"), True),
    "state": _STATE,
    "lastState": _STATE,
}
_POD: Final[Allowed] = {
    "spec": {
        **dict.fromkeys(
            (
                "activeDeadlineSeconds",
                "affinity",
                "hostNetwork",
                "nodeName",
                "nodeSelector",
                "os",
                "overhead",
                "preemptionPolicy",
                "priority",
                "priorityClassName",
                "resourceClaims",
                "resources",
                "restartPolicy",
                "schedulerName",
                "schedulingGates",
                "schedulingGroup",
                "terminationGracePeriodSeconds",
                "tolerations",
                "topologySpreadConstraints",
                "workloadRef",
            ),
            True,
        ),
        "containers": _CONTAINER,
        "initContainers": _CONTAINER,
        "volumes": {"name": True, "persistentVolumeClaim": {"claimName": True}, "ephemeral": {}},
    },
    "status": {
        **dict.fromkeys(
            (
                "phase",
                "reason",
                "nominatedNodeName",
                "startTime",
                "qosClass",
                "resize",
                "resources",
                "resourceClaimStatuses",
                "extendedResourceClaimStatus",
                "nodeAllocatableResourceClaimStatuses",
            ),
            True,
        ),
        "conditions": _SAID,
        "containerStatuses": _CONTAINER_STATUS,
        "initContainerStatuses": _CONTAINER_STATUS,
    },
}
_WORKLOAD: Final[Allowed] = {
    "spec": {
        **dict.fromkeys(
            ("replicas", "suspend", "parallelism", "completions", "completionMode", "activeDeadlineSeconds"), True
        ),
        "template": {"metadata": {"labels": True, "annotations": True}},
    },
    "status": {
        **dict.fromkeys(("active", "succeeded", "failed", "startTime", "completionTime"), True),
        **dict.fromkeys(("replicas", "readyReplicas", "desiredNumberScheduled"), True),
        "conditions": _SAID,
    },
}
_ALLOWED: Final[Mapping[str, Allowed]] = {
    "Node": {
        "spec": {"unschedulable": True, "taints": True},
        "status": {
            **dict.fromkeys(("allocatable", "capacity", "declaredFeatures", "features"), True),
            "conditions": _CONDITIONS,
            "images": True,
        },
    },
    "Namespace": {"status": {"phase": True}},
    "Pod": _POD,
    "ResourceSlice": _SPEC,
    "DeviceTaintRule": _SPEC,
    "DeviceClass": {"spec": {"selectors": True, "extendedResourceName": True, "config": _CONFIG}},
    "ResourceClaim": {
        "spec": _CLAIM_SPEC,
        "status": {
            "reservedFor": True,
            "allocation": {
                "nodeSelector": True,
                "allocationTimestamp": True,
                "devices": {"results": True, "config": _CONFIG},
            },
            "devices": {
                **dict.fromkeys(("driver", "pool", "device", "shareID"), True),
                "conditions": _CONDITIONS,
                "data": {"utilization": True},
            },
        },
    },
    "ResourceClaimTemplate": {"spec": {"metadata": {"labels": True, "annotations": True}, "spec": _CLAIM_SPEC}},
    "PodDisruptionBudget": {
        "spec": True,
        "status": {
            **dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), True),
            "observedGeneration": True,
            "conditions": _CONDITIONS,
        },
    },
    "PersistentVolumeClaim": {
        "spec": dict.fromkeys(
            ("accessModes", "resources", "selector", "storageClassName", "volumeMode", "volumeName"), True
        ),
        "status": {"phase": True, "capacity": True},
    },
    "PersistentVolume": {
        "spec": dict.fromkeys(
            ("accessModes", "capacity", "claimRef", "nodeAffinity", "storageClassName", "volumeMode"), True
        ),
        "status": {"phase": True},
    },
    "StorageClass": {"provisioner": True, "volumeBindingMode": True, "allowedTopologies": True},
    "NodePool": {"spec": {"weight": True}},
    "PriorityClass": {"value": True, "globalDefault": True, "preemptionPolicy": True},
    "ValidatingWebhookConfiguration": {"webhooks": {"rules": {"apiGroups": True}}},
    "Event": {
        "involvedObject": dict.fromkeys(("kind", "namespace", "name", "uid"), True),
        **dict.fromkeys(("type", "reason", "message", "firstTimestamp", "lastTimestamp", "eventTime", "count"), True),
    },
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"), _WORKLOAD),
}


def _spec(*fields: str, status: Allowed | None = None) -> Allowed:
    """Allows these fields of the spec and the status, and conditions without messages."""
    return {"spec": dict.fromkeys(fields, True), "status": {"conditions": _CONDITIONS, **(status or {})}}


_COUNTS: Final = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads", "fairSharing")
_QUEUES_AND_GROUPS: Final[Mapping[str, Allowed]] = {
    "ResourceFlavor": _spec("nodeLabels", "nodeTaints", "tolerations", "topologyName"),
    "ClusterQueue": _spec(
        "resourceGroups",
        "cohort",
        "cohortName",
        "queueingStrategy",
        "namespaceSelector",
        "flavorFungibility",
        "preemption",
        "admissionChecks",
        "admissionChecksStrategy",
        "stopPolicy",
        "fairSharing",
        "admissionScope",
        "concurrentAdmissionPolicy",
        status=dict.fromkeys((*_COUNTS, "flavorsUsage", "flavorsReservation"), True),
    ),
    "LocalQueue": _spec(
        "clusterQueue",
        "stopPolicy",
        "fairSharing",
        status=dict.fromkeys((*_COUNTS, "flavorsUsage", "flavorUsage", "flavorsReservation"), True),
    ),
    "Cohort": _spec("parent", "parentName", "resourceGroups", "fairSharing", status={"fairSharing": True}),
    "WorkloadPriorityClass": {"value": True},
    "Topology": _spec("levels"),
    "Queue": _spec("parentQueue", "resources", "priority", "preemptMinRuntime", "reclaimMinRuntime"),
    # Of Kubernetes, the coscheduling plugin and KAI.
    "PodGroup": _spec(
        "schedulingPolicy",
        "schedulingConstraints",
        "disruptionMode",
        "resourceClaims",
        "priority",
        "priorityClassName",
        "preemptionPolicy",
        "parentCompositePodGroupName",
        "podGroupTemplateRef",
        "minMember",
        "minResources",
        "scheduleTimeoutSeconds",
        "queue",
        "subGroups",
        "minSubGroup",
        "topologyConstraint",
        "markUnschedulable",
        "schedulingBackoff",
        "stalenessGracePeriod",
        "preemptibility",
        status={
            **dict.fromkeys(("phase", "scheduled", "running", "succeeded", "failed", "scheduleStartTime"), True),
            "resourceClaimStatuses": True,
            "conditions": _SAID,
        },
    ),
    "CompositePodGroup": {"spec": True, "status": {"conditions": _SAID}},
    "ComputeClass": _SPEC,
}
"""Kinds of queue and group systems. Their definitions may allow fields that nobody reads."""

EVENT_REASONS: Final = frozenset(
    (
        "FailedAttachVolume",
        "FailedBinding",
        "FailedCreate",
        "FailedMount",
        "FailedPrepareDynamicResources",
        "FailedResourceClaimCreation",
        "FailedScheduling",
        "NotActedUpon",
        "ProvisioningFailed",
    )
)
"""Reasons of events that explanations print. Events with output of containers, such as failing probes, are left out."""


def is_kept_event(event: Object) -> bool:
    """Returns True for an event that an explanation may print: about an object of a kind that snapshots hold."""
    kind = mapping(event.get("involvedObject")).get("kind")
    return event.get("reason") in EVENT_REASONS and (kind in _ALLOWED or kind in _QUEUES_AND_GROUPS)


def kept(kind: str, obj: Object) -> Object:
    """Returns the object with only the fields that the lists name; `kind` is the kind of the object."""
    allowed = _ALLOWED.get(kind) or _QUEUES_AND_GROUPS.get(kind, {})
    made: Object = {"metadata": _metadata(mapping(obj.get("metadata")))}
    made |= _of(obj, allowed)
    template = mapping(mapping(made.get("spec")).get("template"))
    for nested in (template, mapping(made.get("spec"))):
        if "metadata" in nested:
            nested["metadata"] = _metadata(nested["metadata"])
    return made


def _metadata(metadata: Object) -> Object:
    made = _of(metadata, _METADATA)
    annotations = mapping(metadata.get("annotations"))
    found = {name: value for name, value in annotations.items() if name in ANNOTATIONS}
    found |= {name: "" for name in annotations if name.startswith(kai.PREFIX) and name not in found}
    return {**made, "annotations": found} if found else made


def _of(value: Object, allowed: Allowed) -> Object:
    return {name: _part(value[name], what) for name, what in allowed.items() if name in value}


def _part(value: Any, allowed: Any) -> Any:
    if allowed is True:
        return value
    if isinstance(value, dict):
        message = allowed is not _SAID or value.get("type") in _MESSAGES
        return _of(value, allowed if message else _CONDITIONS)
    return [_part(item, allowed) for item in value if isinstance(item, dict)] if isinstance(value, list) else None
