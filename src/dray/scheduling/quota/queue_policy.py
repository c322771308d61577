"""QueuePolicy: the interface between the scheduler and a queue system. Its contract is written here.

A system reads its own objects. It tells which queue a pod is in, which amounts of a pod count there, whether the queue
has quota left, and which pods may be evicted for quota. Each system has a `QueueCharges`, which counts what its pods
hold. Formulas, and whether queues form a tree, are up to the system. Systems are listed in `systems.SYSTEMS`.

Questions change nothing. Only four things change the state of a system: its stores (objects), `charge` (what pods
hold), its `order` (which pods wait) and its `charges`. Everything else may be asked at any time, in a trial or for an
explanation too, and is answered from what is charged at that moment. A queue is known by its name; a system must accept
the name of a queue that was deleted meanwhile wherever it is given one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dray.api.objects import Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.turns import Turn

if TYPE_CHECKING:
    from dray.scheduling.quota.queue_charges import QueueCharges


PLUGIN: Final = "QueueQuota"
"""The name of the plugin that asks queue systems."""

Store = tuple[Callable[[Object], None], Callable[[Object], None]]
"""Two functions: one is called with objects that were created or changed, the other with deleted objects."""


class Asset(NamedTuple):
    """The unit of quota: a resource, or a resource of a flavor if the system has flavors."""

    flavor: str
    resource: str


class DeviceUse(NamedTuple):
    """Devices of one class that a claim holds, or requests if it is not allocated."""

    class_name: str
    number: int
    capacity: Mapping[str, int] = {}
    """The amounts that are taken of the devices' capacities, by name of the capacity."""


class Member(NamedTuple):
    """The queue and priority of a pod in a queue system."""

    queue: str
    """The queue that the pod is charged to; empty if it names one that does not exist."""
    priority: int
    """The priority among the pods of its queues."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The facts about a queue that the scheduler needs to wake waiting pods and to find pods to evict."""

    name: str
    root: str
    """Queues with the same root share quota."""
    limits: Mapping[str, str]
    """The names of the quota objects that refused pods wait for, by the first argument of the reason (the queue, or a
    queue above it). All of these may have more quota left when a pod of the queue ends."""
    related: tuple[str, ...]
    """The names of the queues with the same root, including this queue."""
    contends: str
    """A key that is equal for queues whose pods may be evicted for each other."""
    is_uniform: bool = True
    """Whether `short` has the same answer for all nodes."""
    entitled_by: tuple[str, ...] = ()
    """The quota objects that may entitle pods of the queue to evict others on any node once quota of them is freed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods that want quota: a single pod, or the pods of a group that start together."""

    pods: tuple[Pod, ...]
    """The pods that want quota; empty for the question whether it is worth trying pods at all."""
    queue: str
    wanted: Mapping[str, int]
    """The wanted amounts by resource."""
    priority: int
    """The priority among the pods of its queues."""
    now: float = 0.0

    @property
    def pod(self) -> Pod:
        """The first pod, which stands for all: the pods have the same priority."""
        return self.pods[0]


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """Pods on nodes that are evicted together: the pods of a group, or a single pod."""

    pods: tuple[Pod, ...]
    queue: str
    assets: frozenset[Asset]
    """The assets that the unit holds."""
    priority: int
    """The highest priority of its pods."""
    start: str
    """The time when the first of its pods started."""
    created: str
    """The time when the oldest of its pods was created."""


class ReclaimTrial(Protocol):
    """Tries out evictions; the state is restored at the end."""

    lacks_place: bool
    """Whether the pods that ask fitted on no node although there was quota."""

    def units(self, queues: Iterable[str]) -> list[RunningUnit]:
        """Returns the units charged to the queues that could be evicted, without units that are ending already."""

    def remove(self, unit: RunningUnit) -> None:
        """Removes the unit: its quota and its nodes are free."""

    def restore(self, unit: RunningUnit) -> None:
        """Undoes `remove` of the unit."""

    def note_retry(self, when: float) -> None:
        """Notes the time when more units may be removed than now, if nothing else changes; infinite if never."""

    def is_placeable(self) -> bool:
        """Whether the pods that ask fit on nodes without the removed units, so that no pod is evicted in vain.

        Costs about as much as an attempt to place the pods; call it only if the queue has quota."""

    def tries_again(self, units: Iterable[RunningUnit]) -> bool:
        """Whether the pods that ask lacked a place, and only some of the units are near, which may help if they are
        removed first. Allows as many further calls of `is_placeable`."""

    def is_near(self, unit: RunningUnit) -> bool:
        """Whether the unit is on a node that the pods that ask could use, by their node selectors and affinity."""


class Removals(Protocol):
    """The rules by which pods may be evicted for pods that fit on no node."""

    hopeless: bool
    """Whether it is certain, without checking single pods, that no pod may be evicted."""

    @property
    def retry_at(self) -> float:
        """Returns the time when more pods may be evicted than now, if nothing else changes; infinite if never."""

    def is_evictable(self, pod: Pod) -> bool:
        """Whether the pod may be evicted."""

    def allowed(self, units: Iterable[tuple[Pod, ...]]) -> list[tuple[Pod, ...]]:
        """Returns as many of the units as may be evicted together, the last to be evicted first."""

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        """Whether victims are evicted to reclaim what is due to another queue, whatever their priority."""


class Evictions(Protocol):
    """Answers which evictions can help pods that ask. Creating an object must be cheap; its methods do the work.

    `PriorityEvictions` is a base class: pods of lower priority are evicted to free nodes, and no pods for quota."""

    @property
    def wait_key(self) -> Hashable:
        """Returns what makes the pods unlike others. Pods of a queue and priority that want the same amounts wait
        together if their keys are equal: quota or an eviction that helps one of them helps any."""

    def removals(self) -> Removals:
        """Returns the rules for pods that have quota but fit on no node."""

    def may_reclaim(self) -> bool:
        """Whether evictions might free quota for the pods. The check must be cheap, and False must be certain."""

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Returns the units to evict for missing quota, and the assets to reserve for the pods meanwhile; None if
        evictions cannot help. An empty list means that pods which are ending already free enough. The method changes
        only the trial, which its owner restores."""

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        """Whether a pod of the queue and priority that got quota may be evicted for the pods: for its quota if they
        lack quota (`lacks`), otherwise for its node. The check must be cheap, and False must be certain."""

    def is_hopeful(self) -> bool:
        """Whether pods that lacked quota are worth trying: there is enough quota, or others may be evicted. The check
        must be cheap, and False must be certain. The ask has no pods."""

    def has_room(self, reserved: Mapping[Asset, int]) -> bool:
        """Whether pods may use the quota now that is reserved for them. The check must be cheap, and False certain."""


class FlavorChoice(NamedTuple):
    flavors: tuple[str | None, ...]
    """The flavors that the pods would be charged to on a node; equal pods of a group have the same flavors."""
    rank: int
    """The score of the flavors for the pods, from 0 to 100."""


class NodeFlavors(Protocol):
    """How charges depend on the node of a pod. `OneFlavor` is for systems whose charges do not."""

    @property
    def is_tolerant(self) -> bool:
        """Whether a queue adds tolerations to its pods."""

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        """Returns the assets to charge for amounts that the pod holds on the node, or that are `reserved` for it
        there."""

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        """Returns the flavors of the pods on the node; called only if the queue is not uniform."""

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        """Whether the queue adds a toleration for the taint to its pods on the node."""

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        """Whether pods are charged differently on nodes with labels `labels` and nodes with labels `others`."""


class QueueOrder(Protocol):
    """Decides which pod is tried next. Pods of a system without an order are tried by priority and arrival, like pods
    in no queue."""

    @property
    def revision(self) -> int:
        """A number that changes when other pods may be evicted for pods for which they could not be before."""

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """Adds a waiting pod; `arrival` is its position among all waiting pods. Returns the turn that it waits for;
        None if queues do not take turns, or the pod is in no queue of the system. The pod may be added again after it
        changed."""

    def forget(self, pod: Pod) -> None:
        """Removes a pod that does not wait any more, or never did."""

    def let_pass(self, pod: Pod) -> None:
        """Notes that no pod has to wait for this pod, which waits for something else than quota, until `wait` is called
        again."""

    def admitted(self, pod: Pod) -> None:
        """Notes that the pod was placed and is charged."""

    def sample(self, now: float) -> None:
        """Samples the usage of queues, if past usage counts and a sample is due. Called before every attempt."""

    def is_held_up(self, ask: Ask) -> bool:
        """Whether the pods have to wait for other pods of the queue, even if there is quota for them."""

    def is_entitled(self, pod: Pod) -> bool:
        """Whether other pods may be evicted for the pod whatever their priority; a cheap check."""


class QueuePolicy(Protocol):
    @property
    def label(self) -> str:
        """The pod label that names the queue, which also identifies the system. Empty if any pod may be in a queue."""

    @property
    def stores(self) -> Mapping[str, Store]:
        """Returns the functions that take objects of each kind that the system reads, by name of the kind. Pods are
        tried again after each change. The system is asked nothing before its first object exists, or its kind is
        served."""

    @property
    def charges(self) -> QueueCharges:
        """Returns the charges of the system's pods. The system creates the object, which calls `member`, `amounts`,
        `node_flavors.assets` and `charge` of the system."""

    @property
    def node_flavors(self) -> NodeFlavors:
        """Returns how charges depend on the node of a pod."""

    @property
    def order(self) -> QueueOrder | None:
        """Returns the order in which pods take turns; None if pods are tried by priority and arrival."""

    def member(self, pod: Pod) -> Member | None:
        """Returns the queue of a pod; None if the pod names no queue of this system. This is
        called most often of all, also for pods on nodes: these stay in the queue that admitted them
        (`pod.admitted_to`)."""

    def queue(self, name: str) -> Queue:
        """Returns the facts about a queue. This is called often, so a system keeps the answer until its objects
        change."""

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        """Returns why the pod cannot be admitted however much quota is free; `namespace` are the labels of its
        namespace. There must be a reason if the queue of the pod does not exist. Called before an attempt, for each
        pod."""

    def amounts(self, queue: str, pod: Pod | None, devices: Iterable[DeviceUse]) -> dict[str, int]:
        """Returns the amounts by resource of the queue that the pod itself takes, if one is given, and that devices of
        claims take. Resources that the queue does not count are left out."""

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        """Adds amounts to what pods of the queue hold, or subtracts them if the sign is negative. The same amounts that
        were charged are subtracted later, even if the queue does not exist any more. Trials do this often."""

    def short(self, ask: Ask, node: Node | None = None) -> Reason | None:
        """Returns why there is too little quota for the pods: on all nodes, or on the given node. The first argument of
        the reason is a key of the queue's `limits`. A node is given only if the queue is not uniform or devices were
        found on the node, and only if there was enough quota without a node."""

    def evictions(self, ask: Ask) -> Evictions:
        """Returns the answers to which evictions can help the pods."""


def quota_status(reason: Reason) -> Status:
    """Returns the status for one node. If no flavor of the queue has the node, removing pods from it does not help."""
    return Status(PLUGIN, (reason,), resolvable=reason.code is not Code.NO_FLAVOR)
