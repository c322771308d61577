"""Messages: the text of reasons and diagnoses, in Kubernetes' words where it has them."""

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
"""The prefix under which quotas count the devices of a class."""
_MOST_REASONS: Final = 20
_PVC: Final = 'persistentvolumeclaim "{}"'

_TEXTS: Final = {
    Code.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Code.UNTOLERATED_TAINT: "node(s) had untolerated taint(s)",
    Code.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Code.NODE_CLASS: "node(s) that no priority of ComputeClass {} describes",
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
    Code.UNDECIDED: "node(s) undecided after {} units of search, which goes on",
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
    Code.PLUGIN_OFF: "plugin {} is switched off, and without it no pod is to be placed",
    Code.SCHEDULING_GATES: "it has scheduling gates",
    Code.KIND_UNKNOWN: "the server is being asked whether it has {}",
    Code.POD_GROUP_NOT_FOUND: "PodGroup {0}/{1} not found: create it in namespace {0}, or correct the name in the pod",
    Code.TREE_INCOMPLETE: "of the groups of {}, {} have to start together: waiting for groups or pods of them",
    Code.GANG_INCOMPLETE: "PodGroup {} has {} pods, and {} have to start together: waiting for the others",
    Code.GANG_NOT_READY: "{1} pods of PodGroup {0} can be tried, and {2} have to be placed at once: the rest waits",
    Code.GANG_MISMATCH: "all pods in a single pod group should have the same {} (PodGroup {})",
    Code.GROUP_INVALID: "the groups above {} cannot be placed as a tree: {} at {}",
    Code.GROUP_UNKNOWN: "group {} names a {}, which does not exist",
    Code.POD_BESIDE_SUB_GROUPS: "PodGroup {} has sub-groups, and the pod names none: label kai.scheduler/subgroup-name",
    Code.GPU_FRACTION: (
        "annotation {} is not acted upon: ask for a share of a GPU in a ResourceClaim, by capacity.requests of a device"
        " that can be shared, or by a device class of partitions"
    ),
    Code.GANG_CONTRADICTION: "it names several groups ({}): leave one of them",
    Code.MIN_RESOURCES: "minResources asks for {1} of {0}, and all nodes together have {2} left",
    Code.QUEUE_NOT_FOUND: "{} not found; {}",
    Code.TOPOLOGY_NOT_FOUND: "{} not found",
    Code.QUEUE_CONTRADICTION: "the pod names queues of several systems: {}",
    Code.QUEUE_STOPPED: "queue {} is stopped",
    Code.QUEUE_NAMESPACE: "ClusterQueue {} does not select namespace {}",
    Code.QUEUE_CHECKS: "ClusterQueue {} wants admission checks that nobody answers here: {}",
    Code.QUEUE_CYCLE: "the cohorts above ClusterQueue {} are above each other",
    Code.QUEUE_UNCOVERED: "ClusterQueue {} has no quota for {}, which the pod requests",
    Code.QUEUE_UNCOVERED_CLASS: (
        "ClusterQueue {} has no quota for device class {}, which a claim of the pod requests: add {} to its"
        " coveredResources, or annotate it with {}: allow"
    ),
    Code.QUEUE_HELD_UP: "ClusterQueue {} lets pods in one after the other, and others are before it",
    Code.QUOTA: "quota of ClusterQueue {0} is used up: needs {2} {1}, {3} left, borrowing included",
    Code.QUOTA_TOO_SMALL: (
        "can never fit: ClusterQueue {0} has {3} {1} at most, borrowing included, and {2} are needed; raise the quota,"
        " or ask for less"
    ),
    Code.NO_FLAVOR: "node(s) of no flavor of ClusterQueue {}",
    Code.DRAINING: "what is free is kept for {}, which waits for room, until {} at the latest",
    Code.QUEUE_WITHOUT_PARENT: "Queue {} has no parentQueue, and only queues that have one take pods",
    Code.QUEUE_PARENTS: "a queue above Queue {} does not exist, or is above itself",
    Code.QUEUE_NOT_LEAF: "Queue {} has queues below it, and only those without take pods",
    Code.OVER_LIMIT: "Queue {0}: its limit of {1} is {4}, its pods have {3}, and {2} more are needed",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: (
        "Queue {0}: its quota of {1} is {4}, pods that are not preemptible have {3}, and {2} more are needed"
    ),
    Code.FLAVOR_TAINTS: "the pod does not tolerate the taints of any flavor in which ClusterQueue {} has {}",
    Code.GANG_IN_SEVERAL_DOMAINS: "pods of PodGroup {} are in several domains of {} already, and have to be in one",
    Code.NO_PLACEMENTS: "no feasible placements found: no node that could be used has the label {}",
    Code.CLAIM_NOT_FOUND: "ResourceClaim {0}/{1} not found: create it in namespace {0}, or correct resourceClaimName",
    Code.CLAIM_DELETED: "ResourceClaim {} is being deleted: wait until it is gone, then create it again",
    Code.CLAIM_NOT_OWNED: "ResourceClaim {0}/{1} was not created for Pod {0}/{2} (Pod is not owner)",
    Code.CLAIM_NOT_CREATED: "ResourceClaim not created yet; does ResourceClaimTemplate {}/{} exist?",
    Code.CLAIM_UNSPECIFIED: 'pod "{}/{}", spec.resourceClaim "{}": none of the supported fields are set',
    Code.CLAIM_IN_ALLOCATION: "resource claim {}/{} is in the process of being allocated",
    Code.CLAIM_FULL: "resource claim {}/{} is in use by {} pods, and cannot be by more",
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
        f'{_PVC} waits for its first consumer, and storage class "{{}}" provisions nothing: bind the claim to a'
        " volume, which this scheduler does not do"
    ),
    Code.SCHEDULER_FAILED: "the scheduler failed on this pod and will try again: {}",
}


_WITHOUT_NODES: Final = frozenset(
    code
    for code in Code
    if code.name.startswith(("CLAIM_", "CLASS_", "GANG_", "GROUP_", "POD_GROUP_", "QUEUE_", "TREE_", "KIND_"))
    and code not in (Code.CLAIM_NOT_AVAILABLE, Code.CLAIM_FULL, Code.CLAIM_IN_ALLOCATION)
) | {*QUOTA_CODES, Code.STORAGE_CLASS_NOT_FOUND, Code.TOPOLOGY_NOT_FOUND}
"""Reasons that speak of no node: their text stands alone, without the number of nodes."""

_AMOUNTS: Final = {
    Code.MIN_RESOURCES: (0, (1, 2)),
    Code.QUOTA: (1, (2, 3)),
    Code.QUOTA_TOO_SMALL: (1, (2, 3)),
}
"""Which argument of a reason names a resource, and which are amounts of it."""


def reason_text(reason: Reason) -> str:
    args = list(reason.args)
    resource, amounts = _AMOUNTS.get(reason.code, (0, ()))
    for position in amounts:
        args[position] = amount_text(args[resource], float(args[position]))
    if amounts:
        args[resource] = args[resource].removeprefix(_DEVICES_OF)
    return _TEXTS[reason.code].format(*args)


def amount_text(resource: str, number: float) -> str:
    """As people write it: cpu is counted in thousandths."""
    if resource == "cpu":
        return f"{number / 1000:g}"
    if resource.partition(".")[0] == "memory" or "storage" in resource or resource.startswith("hugepages-"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if abs(number) >= size:
                return f"{number / size:.4g}{unit}"
    return f"{number:.15g}"


def status_text(status: Status) -> str:
    return ", ".join(map(reason_text, status.reasons))


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """For the PodScheduled condition and the FailedScheduling event."""
    text = _diagnosis_text(diagnosis)
    text = f"{text} deallocation of ResourceClaim completed" if diagnosis.deallocated else text
    return _with_drain(text, diagnosis.draining)


def group_text(group: GroupDiagnosis) -> str:
    """For the condition of a group that is not scheduled, and for its pods."""
    if group.status is not None:
        return status_text(group.status)
    text = f"{group.need} pods have to be placed at once, and there is a place for {group.best}"
    if group.domains:
        text = f"0/{group.domains} placements are available: {text} in the best one, {group.domain}"
    if group.part:
        text = f"{text}, not enough for {group.part}"
    if group.undecided:
        text = f"{text} as far as the search went, which came to no end"
    text = f"{text}. For the next: {diagnosis_text(group.following)}" if group.following is not None else f"{text}."
    return _with_drain(text, group.draining)


def _with_drain(text: str, draining: tuple[str, str] | None) -> str:
    if draining is None:
        return text
    since, until = draining
    return f"{text} Since {since} its place is kept from others as pods end there, until {until} at the latest."


def _diagnosis_text(diagnosis: Diagnosis) -> str:
    status = diagnosis.status
    if status is not None:
        text = status_text(status)
        alone = status.error or all(each.code in _WITHOUT_NODES for each in status.reasons)
        return text if alone else _of_nodes(diagnosis.nodes, text)
    if not diagnosis.nodes:
        return "no nodes available to schedule pods"
    text = _of_nodes(diagnosis.nodes, ", ".join(_counted(diagnosis)))
    nearest = diagnosis.nearest
    if nearest is not None and (absent := absent_driver(nearest)) is not None:
        return f"{conclusion_text(absent)}. {text}"
    return f"{text} {nearest.node}: {_shortened(summary(nearest))}." if nearest is not None else text


def _counted(diagnosis: Diagnosis) -> list[str]:
    """The reasons that most nodes have, since a plugin may give each node its own."""
    most = nlargest(_MOST_REASONS, diagnosis.counts, key=itemgetter(1))
    counted = sorted(f"{number} {reason_text(reason)}" for reason, number in most)
    left = len(diagnosis.counts) - len(most)
    return [*counted, f"and {left} more reasons"] if left else counted


def _of_nodes(number: int, text: str) -> str:
    return f"0/{number} nodes are available: {text}."


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SUMMARY else f"{text[:_LONGEST_SUMMARY]}…"
