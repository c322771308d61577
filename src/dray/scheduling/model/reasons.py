"""Reasons why a pod cannot be scheduled, as values: a code and its arguments.

Decisions compare reasons, never texts; `messages` has the text of each code. Details are for explanations: what the pod
requires of a node, and what the node has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class UntoleratedTaint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class LabelMismatch:
    """A label of a node that does not match the pod's node selector or required node affinity."""

    key: str
    operator: str
    values: tuple[str, ...]
    actual: str | None
    """The value on the node; None if the node does not have the label."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has too little."""

    resource: str
    wanted: int
    left: int
    allocatable: int


@dataclass(frozen=True, slots=True)
class RuleMismatch:
    """A node of a node class that matches no rule of the class."""

    node_class: str
    rule: int | None
    """The index of the rule with the fewest mismatches; None if the node lacks what all rules require."""
    mismatches: tuple[LabelMismatch, ...]


Detail = UntoleratedTaint | LabelMismatch | Shortage | RuleMismatch


class Code(Enum):
    # Reasons of one node. The docstring of a code lists its arguments.
    NODE_UNSCHEDULABLE = auto()
    UNTOLERATED_TAINT = auto()
    NODE_AFFINITY = auto()
    NODE_CLASS = auto()
    """(class)"""
    HOST_PORTS = auto()
    TOO_MANY_PODS = auto()
    INSUFFICIENT = auto()
    """(resource)"""
    VOLUME_NODE_AFFINITY = auto()
    VOLUME_ZONE = auto()
    VOLUME_NOT_PROVISIONED = auto()
    POD_AFFINITY = auto()
    POD_ANTI_AFFINITY = auto()
    EXISTING_POD_ANTI_AFFINITY = auto()
    TOPOLOGY_SPREAD = auto()
    TOPOLOGY_SPREAD_LABEL = auto()
    CLAIM_NOT_AVAILABLE = auto()
    CANNOT_ALLOCATE = auto()
    INVALID_POOLS = auto()
    UNDECIDED = auto()
    """(units of work)"""
    UNDECIDED_FOR_GOOD = auto()
    """(units of work)"""
    ALLOCATION_ERROR = auto()
    """(message of the allocator)"""
    MAPPED_DEVICE_SHARED = auto()
    """(claim)"""
    POD_REQUEST_TOO_SMALL = auto()
    """(resource)"""
    NODE_FAILED = auto()
    """(error)"""
    PLUGIN = auto()
    """(text): the answer of a user's plugin."""
    PLUGIN_FAILED = auto()
    """(plugin, error)"""

    # Reasons of the pod, for all nodes.
    PLUGIN_FAILED_ON_POD = auto()
    """(plugin, error)"""
    PLUGIN_OFF = auto()
    """(plugin)"""
    SCHEDULING_GATES = auto()
    KIND_UNKNOWN = auto()
    POD_GROUP_NOT_FOUND = auto()
    """(namespace, name)"""
    GANG_INCOMPLETE = auto()
    """(group, number of pods, minimum)"""
    TREE_INCOMPLETE = auto()
    """(group, minimum of groups)"""
    GANG_NOT_READY = auto()
    """(group, number of pods that can be tried, number needed)"""
    GANG_MISMATCH = auto()
    """(field that differs, group)"""
    GROUP_INVALID = auto()
    """(group, what is wrong, where)"""
    TOPOLOGY_INVALID = auto()
    """(problem)"""
    GROUP_UNKNOWN = auto()
    """(group, object that it names)"""
    POD_BESIDE_SUB_GROUPS = auto()
    """(group, label that names a sub-group)"""
    GPU_FRACTION = auto()
    """(annotation)"""
    GANG_CONTRADICTION = auto()
    """(groups)"""
    MIN_RESOURCES = auto()
    """(resource, wanted, left)"""
    QUEUE_NOT_FOUND = auto()
    """(kind and name, suggestion)"""
    TOPOLOGY_NOT_FOUND = auto()
    """(kind and name)"""
    QUEUE_CONTRADICTION = auto()
    """(labels)"""
    QUEUE_STOPPED = auto()
    """(queue)"""
    QUEUE_NAMESPACE = auto()
    """(queue, namespace)"""
    QUEUE_CHECKS = auto()
    """(queue, checks)"""
    QUEUE_CYCLE = auto()
    """(queue)"""
    QUEUE_UNCOVERED = auto()
    """(queue, resource)"""
    QUEUE_UNCOVERED_CLASS = auto()
    """(queue, device class, resource that covers the class, annotation that admits such pods)"""
    QUEUE_HELD_UP = auto()
    """(queue)"""
    QUOTA = auto()
    """(queue, resource, wanted, left)"""
    QUOTA_BORROWING = auto()
    """(queue, resource, wanted, left, quota); more is wanted than the quota of the queue"""
    QUOTA_TOO_SMALL = auto()
    """(queue, resource, wanted, most that the queue can ever have)"""
    NO_FLAVOR = auto()
    """(queue)"""
    PLACE_RESERVED = auto()
    """(group, until when)"""
    QUEUE_WITHOUT_PARENT = auto()
    """(queue)"""
    QUEUE_PARENTS = auto()
    """(queue)"""
    QUEUE_NOT_LEAF = auto()
    """(queue)"""
    OVER_LIMIT = auto()
    """(queue, resource, wanted, held, limit)"""
    NON_PREEMPTIBLE_OVER_QUOTA = auto()
    """(queue, resource, wanted, held, quota)"""
    FLAVOR_TAINTS = auto()
    """(queue, resource)"""
    GANG_IN_SEVERAL_DOMAINS = auto()
    """(group, label)"""
    NO_PLACEMENTS = auto()
    """(label)"""
    CLAIM_NOT_FOUND = auto()
    """(namespace, name)"""
    CLAIM_DELETED = auto()
    """(name)"""
    CLAIM_NOT_OWNED = auto()
    """(namespace, name, pod)"""
    CLAIM_NOT_CREATED = auto()
    """(namespace, template)"""
    CLAIM_UNSPECIFIED = auto()
    """(namespace, pod, entry)"""
    CLAIM_IN_ALLOCATION = auto()
    """(namespace, name)"""
    CLAIM_FULL = auto()
    """(namespace, name, number of consumers)"""
    CLASS_NOT_FOUND = auto()
    """(request, class, suggestion)"""
    EXTENDED_RESOURCE_CLAIM = auto()
    VOLUME_CLAIM_NOT_FOUND = auto()
    """(name)"""
    VOLUME_CLAIM_NOT_CREATED = auto()
    """(name)"""
    VOLUME_CLAIM_DELETED = auto()
    """(name)"""
    VOLUME_CLAIM_NOT_OWNED = auto()
    """(namespace, name, pod)"""
    VOLUME_CLAIM_UNBOUND = auto()
    """(name)"""
    STORAGE_CLASS_NOT_FOUND = auto()
    """(claim, class, suggestion)"""
    VOLUME_NOT_FOUND = auto()
    """(claim, volume)"""
    NO_PROVISIONER = auto()
    """(claim, class)"""
    SCHEDULER_FAILED = auto()
    """(error)"""


QUOTA_CODES: Final = frozenset(
    (Code.QUOTA, Code.QUOTA_BORROWING, Code.QUOTA_TOO_SMALL, Code.OVER_LIMIT, Code.NON_PREEMPTIBLE_OVER_QUOTA)
)
"""The codes of missing quota."""


class Reason(NamedTuple):
    code: Code
    args: tuple[str, ...] = ()


class ObjectRef(NamedTuple):
    """An object of any kind that a pod may wait for."""

    kind: str
    namespace: str
    name: str
