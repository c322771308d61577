"""Cycle: what is known during one attempt to schedule a pod; plugins leave there what they prepare for it.

`PodClaims` are the claims of the pod as they are then, a `DevicePlan` the devices that were found for them on a node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dray.allocation import Allocation, Work
from dray.api.objects import Object
from dray.api.pods import group_name
from dray.api.resource_claims import reserved_for
from dray.scheduling.cluster.device_demand import NO_DEMAND, DeviceDemand
from dray.scheduling.groups.native import PLURAL
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Amounts, Pod

if TYPE_CHECKING:
    from dray.scheduling.core.feasible_nodes import FeasibleNodes
    from dray.scheduling.plugin import Plugin


@dataclass(frozen=True, slots=True)
class PodClaims:
    claims: tuple[Object, ...] = ()
    """All of the pod's own, in its order."""
    entries: tuple[Object, ...] = ()
    """The entry of spec.resourceClaims for each of them."""
    unallocated: tuple[Object, ...] = ()
    allocated: tuple[Object, ...] = ()
    unavailable: tuple[Object, ...] = ()
    """Of the allocated ones those whose binding conditions failed: they must be deallocated first."""
    demand: DeviceDemand = NO_DEMAND
    """What the unallocated ones and extended resources ask for."""
    leftover: Object | None = None
    """A claim for extended resources that an earlier attempt made: in the way of a new one."""


NO_CLAIMS = PodClaims()


@dataclass(frozen=True, slots=True)
class ExtendedResourceClaim:
    """The claim for extended resources that has yet to be created, and which container gets which request."""

    claim: Object
    mappings: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The devices of one node that a pod would get there."""

    allocation: Allocation | None = None
    """Of the unallocated claims in their order, the one for extended resources last."""
    extended: ExtendedResourceClaim | None = None
    extra: Amounts = field(default_factory=dict)
    """What the devices take from the node beside the pod's own requests."""
    node_allocatable: tuple[Object, ...] = ()
    """The same as it stands in the pod's status."""


NO_DEVICES = DevicePlan()


def is_reserved(claim: Object, pod: Pod) -> bool:
    """Whether a claim is reserved for the pod, or for the group it belongs to."""
    return any(each.get("uid") == pod.uid or is_group_of(each, pod) for each in reserved_for(claim))


def is_group_of(consumer: Object, pod: Pod) -> bool:
    """Whether it is the group of the pod, which it knows by name only."""
    return consumer.get("resource") == PLURAL and consumer.get("name") == group_name(pod.document)


class Cycle:
    __slots__ = (
        "claims",
        "data",
        "devices",
        "feasible",
        "nodes",
        "now",
        "own_filters",
        "pod",
        "skipped",
        "undecided",
        "work",
    )

    def __init__(self, pod: Pod, now: float, work: Work, claims: PodClaims) -> None:
        self.pod = pod
        self.now = now
        self.work = work
        """What may be spent on it, over all nodes."""
        self.claims = claims
        """The pod's claims as they are now."""
        self.data: dict[str, Any] = {}
        """By plugin name."""
        self.skipped: set[str] = set()
        """The plugins that have nothing to say about the pod."""
        self.own_filters: list[Plugin] | None = None
        """Of the others those that are asked for each pod anew; None until somebody wants to know."""
        self.nodes: frozenset[int] | None = None
        """The only nodes that come into question, by number, because of claims that have devices already."""
        self.feasible: FeasibleNodes | None = None
        """The nodes as they are for pods of its signature."""
        self.devices: DevicePlan | None = None
        """The devices on the node that was filtered last."""
        self.undecided: dict[str, Node] = {}
        """Where the search for devices was given up for lack of work; elsewhere it may go on."""
