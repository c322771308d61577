"""Messages: the text of reasons and diagnoses, in the words of Kubernetes where it has such a message."""

from __future__ import annotations

from heapq import nlargest
from operator import itemgetter
from typing import Final

from dray.allocation.conclusions import absent_driver
from dray.allocation.text import summary
from dray.allocation.wording import conclusion_text
from dray.scheduling.model.reasons import QUOTA_CODES, Code, Reason
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status

_LONGEST_SUMMARY: Final = 600
_DEVICES_OF: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the resource names under which quota counts the devices of a class."""
_MOST_REASONS: Final = 20
_PVC: Final = 'persistentvolumeclaim "{}"'

_TEXTS: Final = {
    Code.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Code.UNTOLERATED_TAINT: "node(s) had untolerated taint(s)",
    Code.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Code.NODE_CLASS: "node(s) didn't match any priority of ComputeClass {}",
    Code.HOST_PORTS: "node(s) didn't have free ports for the requested pod ports",
    Code.TOO_MANY_PODS: "Too many pods",
    Code.INSUFFICIENT: "Insufficient {}",
    Code.VOLUME_NODE_AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    Code.VOLUME_ZONE: "node(s) had no available volume zone",
    Code.VOLUME_NOT_PROVISIONED: "node(s) didn't find available persistent volumes to bind",
    Code.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Code.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Code.EXISTING_POD_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Code.TOPOLOGY_SPREAD: "node(s) didn't match pod topology spread constraints",
    Code.TOPOLOGY_SPREAD_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    Code.CLAIM_NOT_AVAILABLE: "resourceclaim not available on the node",
    Code.CANNOT_ALLOCATE: "cannot allocate all claims",
    Code.INVALID_POOLS: "invalid resource pools were encountered",
    Code.UNDECIDED: "node(s) undecided after {} units of search (the search continues)",
    Code.UNDECIDED_FOR_GOOD: "node(s) undecided after {} units of search",
    Code.ALLOCATION_ERROR: "{}",
    Code.MAPPED_DEVICE_SHARED: (
        "node allocatable resource claim {} has a mapped device and cannot be shared across pods"
    ),
    Code.POD_REQUEST_TOO_SMALL: (
        "pod level request for {} is insufficient to cover the aggregated container and node-allocatable DRA requests"
    ),
    Code.NODE_FAILED: "node(s) on which the scheduler failed ({})",
    Code.PLUGIN: "{}",
    Code.PLUGIN_FAILED: "node(s) on which plugin {} failed ({})",
    Code.PLUGIN_FAILED_ON_POD: "plugin {} failed on this pod ({})",
    Code.PLUGIN_OFF: "plugin {} is switched off, and its failure policy Fail keeps pods pending",
    Code.SCHEDULING_GATES: "Scheduling is blocked due to non-empty scheduling gates",
    Code.KIND_UNKNOWN: "waiting for the API server to say whether it serves {}",
    Code.POD_GROUP_NOT_FOUND: "PodGroup {0}/{1} not found: create it in namespace {0}, or correct the name in the pod",
    Code.TREE_INCOMPLETE: "group {} needs {} complete sub-groups to start: waiting for missing groups or pods",
    Code.GANG_INCOMPLETE: "PodGroup {} has {} of the {} pods that have to start together: waiting for the others",
    Code.GANG_NOT_READY: (
        "only {1} pods of PodGroup {0} are ready, and {2} have to be placed together: waiting for the others"
    ),
    Code.GANG_MISMATCH: "all pods in a single pod group should have the same {} (PodGroup {})",
    Code.GROUP_INVALID: "the parent groups of {} are invalid: {} at {}",
    Code.TOPOLOGY_INVALID: "the topology annotations of the pod are refused: {}",
    Code.GROUP_UNKNOWN: "group {} names {}, which does not exist: create it, or correct the name",
    Code.POD_BESIDE_SUB_GROUPS: "PodGroup {} has sub-groups, and the pod names none: set its label {}",
    Code.GPU_FRACTION: (
        "annotation {} is not supported: request a share of a GPU in a ResourceClaim, by capacity.requests of a device"
        " that can be shared, or by a device class of partitions"
    ),
    Code.GANG_CONTRADICTION: "the pod names several groups ({}): remove all but one",
    Code.MIN_RESOURCES: "minResources of the group requests {1} {0}, and all nodes together have {2} left",
    Code.QUEUE_NOT_FOUND: "{} not found; {}",
    Code.TOPOLOGY_NOT_FOUND: "{} not found",
    Code.QUEUE_CONTRADICTION: "the pod names queues of several systems ({}): remove all but one",
    Code.QUEUE_STOPPED: "queue {} is stopped",
    Code.QUEUE_NAMESPACE: "ClusterQueue {} does not select namespace {}",
    Code.QUEUE_CHECKS: "ClusterQueue {} has admission checks, which this scheduler does not support: {}",
    Code.QUEUE_CYCLE: "the cohorts of ClusterQueue {} form a cycle: correct parentName of one of them",
    Code.QUEUE_UNCOVERED: "ClusterQueue {} has no quota for {}, which the pod requests",
    Code.QUEUE_UNCOVERED_CLASS: (
        "ClusterQueue {} has no quota for device class {}, which a claim of the pod requests: add {} to its"
        " coveredResources, or annotate it with {}: allow"
    ),
    Code.QUEUE_HELD_UP: "ClusterQueue {} admits pods in order (StrictFIFO), and other pods are first",
    Code.QUOTA: "quota of ClusterQueue {0} is used up: needs {2} {1}, {3} left, borrowing included",
    Code.QUOTA_BORROWING: "needs {2} {1}, {3} left: more than the quota of {4} of ClusterQueue {0}, can only borrow",
    Code.QUOTA_TOO_SMALL: (
        "can never fit: ClusterQueue {0} has {3} {1} at most, borrowing included, and {2} are needed; raise the quota,"
        " or ask for less"
    ),
    Code.NO_FLAVOR: "node(s) didn't match any flavor of ClusterQueue {}",
    Code.PLACE_RESERVED: "free resources are reserved for {}, which is waiting for room, until {} at the latest",
    Code.QUEUE_WITHOUT_PARENT: "Queue {} has no parentQueue: only queues with a parent accept pods",
    Code.QUEUE_PARENTS: "a parent of Queue {} does not exist, or its parents form a cycle",
    Code.QUEUE_NOT_LEAF: "Queue {} has child queues: only queues without children accept pods",
    Code.OVER_LIMIT: "Queue {0}: its limit of {1} is {4}, its pods have {3}, and {2} more are needed",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: (
        "Queue {0}: its quota of {1} is {4}, pods that are not preemptible have {3}, and {2} more are needed"
    ),
    Code.FLAVOR_TAINTS: "the pod tolerates the taints of no flavor of ClusterQueue {} that has quota for {}",
    Code.GANG_IN_SEVERAL_DOMAINS: (
        "pods of PodGroup {} run in several domains of {}, and its topology requires one: delete the misplaced pods"
    ),
    Code.NO_PLACEMENTS: "no feasible placements found: no node has the label {}",
    Code.CLAIM_NOT_FOUND: "ResourceClaim {0}/{1} not found: create it in namespace {0}, or correct resourceClaimName",
    Code.CLAIM_DELETED: "ResourceClaim {} is being deleted: wait until it is gone, then create it again",
    Code.CLAIM_NOT_OWNED: "ResourceClaim {0}/{1} was not created for Pod {0}/{2} (Pod is not owner)",
    Code.CLAIM_NOT_CREATED: "ResourceClaim not created yet; does ResourceClaimTemplate {}/{} exist?",
    Code.CLAIM_UNSPECIFIED: 'pod "{}/{}", spec.resourceClaim "{}": none of the supported fields are set',
    Code.CLAIM_IN_ALLOCATION: "resource claim {}/{} is in the process of being allocated",
    Code.CLAIM_FULL: "resource claim {}/{} is in use by {} pods, which is the maximum: use another claim",
    Code.CLASS_NOT_FOUND: "DeviceClass {1} not found (request {0}); {2}",
    Code.EXTENDED_RESOURCE_CLAIM: "cannot schedule extended resource claim",
    Code.VOLUME_CLAIM_NOT_FOUND: f"{_PVC} not found",
    Code.VOLUME_CLAIM_NOT_CREATED: f"waiting for ephemeral volume controller to create the {_PVC}",
    Code.VOLUME_CLAIM_DELETED: f"{_PVC} is being deleted",
    Code.VOLUME_CLAIM_NOT_OWNED: "PVC {0}/{1} was not created for pod {0}/{2} (pod is not owner)",
    Code.VOLUME_CLAIM_UNBOUND: "pod has unbound immediate PersistentVolumeClaims ({})",
    Code.STORAGE_CLASS_NOT_FOUND: f'{_PVC} is not bound: StorageClass "{{}}" not found; {{}}',
    Code.VOLUME_NOT_FOUND: f'{_PVC} bound to non-existent persistentvolume "{{}}"',
    Code.NO_PROVISIONER: (
        f'{_PVC} waits for its first consumer, and StorageClass "{{}}" has no provisioner: create a volume that the'
        " claim can be bound to"
    ),
    Code.SCHEDULER_FAILED: "the scheduler failed on this pod and will try again: {}",
}


_WITHOUT_NODES: Final = frozenset(
    code
    for code in Code
    if code.name.startswith(("CLAIM_", "CLASS_", "GANG_", "GROUP_", "POD_GROUP_", "QUEUE_", "TREE_", "KIND_"))
    and code not in (Code.CLAIM_NOT_AVAILABLE, Code.CLAIM_FULL, Code.CLAIM_IN_ALLOCATION)
) | {*QUOTA_CODES, Code.STORAGE_CLASS_NOT_FOUND, Code.TOPOLOGY_NOT_FOUND}
"""Reasons that concern no node: their text is shown without the number of nodes."""

_AMOUNTS: Final = {
    Code.MIN_RESOURCES: (0, (1, 2)),
    Code.QUOTA: (1, (2, 3)),
    Code.QUOTA_BORROWING: (1, (2, 3, 4)),
    Code.QUOTA_TOO_SMALL: (1, (2, 3)),
}
"""The position of the argument of a reason that names a resource, and of those that are amounts of it."""


def reason_text(reason: Reason) -> str:
    args = list(reason.args)
    resource, amounts = _AMOUNTS.get(reason.code, (0, ()))
    for position in amounts:
        args[position] = amount_text(args[resource], float(args[position]))
    if amounts:
        args[resource] = resource_text(args[resource])
    return _TEXTS[reason.code].format(*args)


def resource_text(resource: str) -> str:
    """Returns the name as people write it: devices by their class alone."""
    return resource.removeprefix(_DEVICES_OF)


_BINARY_UNITS: Final = (("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def amount_text(resource: str, number: float) -> str:
    """An amount of a resource as people write it; cpu is given in thousandths."""
    if resource == "cpu":
        return f"{number / 1000:.15g}"
    if resource.partition(".")[0] == "memory" or "storage" in resource or resource.startswith("hugepages-"):
        for unit, size in _BINARY_UNITS:
            if abs(number) >= size:
                return f"{number / size:.4g}{unit}"
    return f"{number:.15g}"


def status_text(status: Status) -> str:
    return ", ".join(map(reason_text, status.reasons))


def diagnosis_text(diagnosis: Diagnosis | GroupDiagnosis) -> str:
    """The message of the PodScheduled condition and the FailedScheduling event of a pod, or of a group and its pods."""
    if isinstance(diagnosis, GroupDiagnosis):
        return _group_text(diagnosis)
    text = _diagnosis_text(diagnosis)
    text = f"{text} deallocation of ResourceClaim completed" if diagnosis.deallocated else text
    return _with_reservation(text, diagnosis.reservation)


def _group_text(group: GroupDiagnosis) -> str:
    if group.status is not None:
        return status_text(group.status)
    fit = f"only {group.best} fit" if group.best else "none fits"
    text = f"{group.need} pods have to be placed together, but {fit}"
    if group.domains:
        text = f"0/{group.domains} placements are available: {text} in the best one, {group.domain}"
    if group.part:
        text = f"{text}, not enough for {group.part}"
    if group.undecided:
        text = f"{text} (the search was stopped at its work limit)"
    text = f"{text}. The next pod: {diagnosis_text(group.following)}" if group.following is not None else f"{text}."
    return _with_reservation(text, group.reservation)


def _with_reservation(text: str, reservation: tuple[str, str] | None) -> str:
    if reservation is None:
        return text
    since, until = reservation
    return f"{text} Since {since} resources that become free are reserved for it, until {until} at the latest."


def _diagnosis_text(diagnosis: Diagnosis) -> str:
    status = diagnosis.status
    if status is not None:
        text = status_text(status)
        alone = status.error or all(reason.code in _WITHOUT_NODES for reason in status.reasons)
        return text if alone else _of_nodes(diagnosis.nodes, text)
    if not diagnosis.nodes:
        return "no nodes available to schedule pods"
    text = _of_nodes(diagnosis.nodes, ", ".join(_counted(diagnosis)))
    nearest = diagnosis.nearest
    if nearest is not None and (absent := absent_driver(nearest)) is not None:
        return f"{conclusion_text(absent)}. {text}"
    return f"{text} {nearest.node}: {_shortened(summary(nearest))}." if nearest is not None else text


def _counted(diagnosis: Diagnosis) -> list[str]:
    """The most frequent reasons with their numbers of nodes; a plugin may give each node a reason of its own."""
    most = nlargest(_MOST_REASONS, diagnosis.counts, key=itemgetter(1))
    counted = sorted(f"{number} {reason_text(reason)}" for reason, number in most)
    left = len(diagnosis.counts) - len(most)
    return [*counted, f"and {left} more reasons"] if left else counted


def _of_nodes(number: int, text: str) -> str:
    return f"0/{number} nodes are available: {text}."


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SUMMARY else f"{text[:_LONGEST_SUMMARY]}…"
