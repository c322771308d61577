"""QueuePolicy: the interface between the scheduler and a queue system. Its contract is written here.

A system reads its own objects and says in which queue a pod is, what of a pod counts there, whether there is room and
which pods may be evicted so that there is. What its pods hold is counted by `QueueCharges`, which each system has one
of. Formulas, and whether queues form a tree, are its own affair. Systems are listed in `systems.SYSTEMS`.

Asking changes nothing. Only four things change what a system knows: its stores (objects), `charge` (what pods hold),
its `order` (which pods wait) and its `charges`. Everything else may be asked at any time, in a trial or for an
explanation too, and is answered from what is charged at that moment. A queue is known by its name; a system must accept
the name of a queue that was deleted meanwhile wherever it is given one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dray.api.objects import Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.quota.turns import Turn

if TYPE_CHECKING:
    from dray.scheduling.quota.queue_charges import QueueCharges


PLUGIN: Final = "QueueQuota"
"""The plugin that asks."""

Store = tuple[Callable[[Object], None], Callable[[Object], None]]
"""Takes an object that was created or changed; takes one that was deleted."""


class Asset(NamedTuple):
    """The unit of quota: a resource, on nodes of a flavor where it has flavors."""

    flavor: str
    resource: str


class DeviceUse(NamedTuple):
    """Devices of one class that a claim holds, or asks for as long as it holds none."""

    class_name: str
    number: int
    capacity: Mapping[str, int] = {}
    """The capacity that the devices take, by its name."""


class Member(NamedTuple):
    """How a pod belongs to a queue system."""

    queue: str
    """The queue that the pod is charged to; empty if it names one that does not exist."""
    priority: int
    """The priority among the pods of its queues."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The facts that the scheduler needs about a queue to wake pods that wait, and to look for pods to evict."""

    name: str
    root: str
    """Queues with the same root share quota."""
    limits: Mapping[str, str]
    """The names of what pods wait for that the queue or one above it refuses, by the first argument of the reason. All
    of it may become more when a pod of the queue ends."""
    related: tuple[str, ...]
    """Names of the queues with the same root, its own included."""
    contends: str
    """Equal for queues whose pods may take places from each other."""
    is_uniform: bool = True
    """Whether `short` has the same answer for all nodes."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods that want quota: one, or those of a group that start together."""

    pods: tuple[Pod, ...]
    """Empty if it is only asked whether it is worth while to try pods."""
    queue: str
    wanted: Mapping[str, int]
    """Amounts by resource."""
    priority: int
    """The priority among the pods of its queues."""
    now: float = 0.0

    @property
    def pod(self) -> Pod:
        """The pod that stands for all of them: they have one priority."""
        return self.pods[0]


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """Pods on nodes that are evicted together: those of a group, or a single one."""

    pods: tuple[Pod, ...]
    queue: str
    assets: frozenset[Asset]
    """The assets that the unit holds."""
    priority: int
    """The highest priority of its pods."""
    start: str
    """The time when the first of its pods started."""


class ReclaimTrial(Protocol):
    """Tries out evictions; the state is restored at the end."""

    def units(self, queues: Iterable[str]) -> list[RunningUnit]:
        """Returns the units charged to the queues that could be evicted, without those that are ending already."""

    def remove(self, unit: RunningUnit) -> None:
        """Gives what the unit holds back to its queue."""

    def restore(self, unit: RunningUnit) -> None:
        """Undoes `remove`."""

    def is_placeable(self) -> bool:
        """Whether the pods that ask find a place without the removed units, so that no pod is evicted in vain.

        Costs about as much as an attempt to place the pods; to be asked when there is room in the queue."""


class Removals(Protocol):
    """Rules which pods may be evicted for pods that find no place."""

    hopeless: bool
    """Whether no pod may be evicted, as far as can be told without a look at the pods."""

    @property
    def retry_at(self) -> float:
        """Returns the time when more may be evicted than now, if nothing else changes; infinite if never."""

    def may_go(self, pod: Pod) -> bool:
        """Whether the pod may be evicted."""

    def legal(self, units: Iterable[tuple[Pod, ...]]) -> list[tuple[Pod, ...]]:
        """Returns as many of the units as may be evicted together, the last to be evicted first."""

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        """Whether some of the victims end for what is due to another queue, whatever their priority."""


class Evictions(Protocol):
    """Answers what evictions can do for pods that ask. Making one must be cheap: the work is done when it is asked.

    `PriorityEvictions` is a base: pods of lower priority are evicted for a place, and none for quota."""

    def removals(self) -> Removals:
        """Returns which pods may be evicted if there is quota and no place."""

    def may_reclaim(self) -> bool:
        """Whether evictions might make room in the queue. Cheap, and never wrongly no."""

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Returns the units to evict for quota that is lacking, and what is to be reserved for the pods meanwhile; None
        if that is impossible. No units: what is ending already is enough. Only the trial is changed, and restored by
        its owner."""

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        """Whether a pod of the queue and priority that got quota may be evicted for the pods: for quota, if they
        `lacks` it, or for the place that they did not find. Cheap, and never wrongly no."""

    def is_hopeful(self) -> bool:
        """Whether pods that lacked quota are worth trying: there is enough, or others may be evicted. Cheap, and never
        wrongly no. Asked without pods."""

    def has_room(self, reserved: Mapping[Asset, int]) -> bool:
        """Whether pods that so much is reserved for may have it now. Cheap, and never wrongly no."""


class FlavorChoice(NamedTuple):
    flavors: tuple[str | None, ...]
    """The flavors that the pods would be charged to on a node; pods of a group that are alike have the same."""
    rank: int
    """How good the flavors are for the pods, from 0 to 100."""


class NodeFlavors(Protocol):
    """What it means to a queue on which node a pod is. `OneFlavor` is for systems to which it means nothing."""

    @property
    def is_tolerant(self) -> bool:
        """Whether pods of some queue tolerate taints because of their queue."""

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        """Returns what amounts are charged to that the pod has on the node, or that are `reserved` for it there."""

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        """Asked only if the queue is not uniform."""

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        """Whether pods of the queue tolerate the taint of the node because of what the queue gives them there."""

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        """Whether pods are charged differently on nodes with these labels and with the others."""


class QueueOrder(Protocol):
    """Decides whose turn it is. A system without one has its pods tried by priority and arrival, as pods of no
    queue."""

    @property
    def revision(self) -> int:
        """Changes when pods may have become entitled to evictions that they were not entitled to before."""

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """Takes a pod that waits from now on; `arrival` is its place among all that wait. Returns whose turn it waits
        for, if queues take turns. A pod may be given again, with what it says now."""

    def forget(self, pod: Pod) -> None:
        """The pod does not wait any more. It may never have waited."""

    def let_pass(self, pod: Pod) -> None:
        """No pod has to wait for this one, which lacks something else than quota, until it is given to `wait` again."""

    def admitted(self, pod: Pod) -> None:
        """The pod has a place and is charged."""

    def sample(self, now: float) -> None:
        """Notes what queues use, if past usage counts and it is time. Called before every attempt."""

    def is_held_up(self, ask: Ask) -> bool:
        """Whether other pods of the queue are first, even if there is room for these."""

    def is_entitled(self, pod: Pod) -> bool:
        """Whether others may be evicted for the pod whatever their priority, as far as can be told cheaply."""


class QueuePolicy(Protocol):
    @property
    def label(self) -> str:
        """The pod label that names the queue, and stands for the system. Empty if any pod may be in a queue."""

    @property
    def stores(self) -> Mapping[str, Store]:
        """Returns where objects of each kind that the system reads are put and removed, by the name of the kind. Pods
        are tried again after each change. Nothing is asked before the first object came, or its kind is served."""

    @property
    def charges(self) -> QueueCharges:
        """Returns what its pods hold. The system makes it, and is asked by it for `member`, `amounts` and
        `node_flavors.assets`, and told by `charge`."""

    @property
    def node_flavors(self) -> NodeFlavors:
        """What it means on which node a pod is."""

    @property
    def order(self) -> QueueOrder | None:
        """Returns the order in which pods take turns; None if pods are tried as they come."""

    def member(self, pod: Pod) -> Member | None:
        """Returns the queue of a pod; None if the pod names no queue of this system. Asked most often of all, also for
        pods on nodes: these stay in the queue that they were admitted to (`pod.admitted_to`)."""

    def queue(self, name: str) -> Queue:
        """Returns what is to be known of a queue. Asked often: a system keeps it until its objects change."""

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        """Returns why the pod cannot be let in whatever is free; `namespace` are the labels of its namespace. Has a
        reason if the queue of the pod does not exist. Asked before an attempt, for each pod."""

    def amounts(self, queue: str, pod: Pod | None, devices: Iterable[DeviceUse]) -> dict[str, int]:
        """Returns by resource of the queue what the pod itself takes, if one is given, and what devices of claims
        take. What the queue does not count is left out."""

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        """Notes that pods of the queue hold so much more, or less if the sign is negative. What was charged is given
        back as it was, also if the queue does not exist any more, and in trials often."""

    def short(self, ask: Ask, node: Node | None = None) -> Reason | None:
        """Returns what there is too little of: wherever the pods go, or on one node. The first argument of the reason
        is a key of the queue's `limits`. For a node it is asked only if the queue is not uniform or devices were found
        there, and there was enough elsewhere."""

    def evictions(self, ask: Ask) -> Evictions:
        """Returns what evictions can do for the pods."""
