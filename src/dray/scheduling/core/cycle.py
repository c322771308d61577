"""Cycle: the data of one attempt to schedule a pod; plugins store there what they prepare for it.

`PodClaims` are the claims of the pod at the time of the attempt. A `DevicePlan` has the devices that were found for
them on a node.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
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
    """The claims of the pod, in the order of its spec."""
    entries: tuple[Object, ...] = ()
    """The entries of spec.resourceClaims, one for each claim."""
    unallocated: tuple[Object, ...] = ()
    allocated: tuple[Object, ...] = ()
    unavailable: tuple[Object, ...] = ()
    """Allocated claims whose binding conditions failed: they must be deallocated first."""
    demand: DeviceDemand = NO_DEMAND
    """The devices that unallocated claims and extended resources request."""
    leftover: Object | None = None
    """A claim for extended resources that an earlier attempt created; it has to be deleted before a new one."""


NO_CLAIMS = PodClaims()


@dataclass(frozen=True, slots=True)
class ExtendedResourceClaim:
    """A claim for extended resources that is not created yet, and which container gets which request."""

    claim: Object
    mappings: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The devices of one node that a pod would get there."""

    allocation: Allocation | None = None
    """The allocation of the unallocated claims in their order; the claim for extended resources is the last."""
    extended: ExtendedResourceClaim | None = None
    extra: Amounts = field(default_factory=dict)
    """Resources that the devices take from the node, in addition to the pod's requests."""
    node_allocatable: tuple[Object, ...] = ()
    """The same resources, as entries for the status of the pod."""


NO_DEVICES = DevicePlan()


def is_reserved(claim: Object, pod: Pod) -> bool:
    """Whether a claim is reserved for the pod, or for the group of the pod."""
    return any(consumer.get("uid") == pod.uid or is_group_of(consumer, pod) for consumer in reserved_for(claim))


def is_group_of(consumer: Object, pod: Pod) -> bool:
    """Whether a consumer is the PodGroup that the pod names; the pod knows only its name."""
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
        """The work budget of the attempt, for all nodes together."""
        self.claims = claims
        """The claims of the pod at the time of the attempt."""
        self.data: dict[str, Any] = {}
        """Values that plugins prepared, by name of the plugin."""
        self.skipped: set[str] = set()
        """The names of plugins that do not concern the pod: their prefilter returned SKIP."""
        self.own_filters: list[Plugin] | None = None
        """The other filters whose answers are not kept; None until `Framework.own_filters` was called."""
        self.nodes: frozenset[int] | None = None
        """The numbers of the nodes where all allocated claims can be used; None: all nodes."""
        self.feasible: FeasibleNodes | None = None
        """The feasible nodes for pods with the signature of the pod."""
        self.devices: DevicePlan | None = None
        """The devices on the node that was filtered last."""
        self.undecided: dict[str, Node] = {}
        """Nodes on which the work budget was used up before the search for devices ended, by name. The search may
        continue in the background."""

    def restrict(self, numbers: AbstractSet[int]) -> None:
        """Leaves out all nodes but these."""
        self.nodes = frozenset(numbers) if self.nodes is None else self.nodes & numbers
