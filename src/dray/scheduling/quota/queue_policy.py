"""QueuePolicy: what a front end decides about its queues; what their pods hold is counted for it by `QueueCharges`.

A front end says which queue a pod is in, under which names its queues count resources and devices, whether there is
room, and whom to remove so that there is. Formulas, and whether queues form a tree, are its own affair. Queues have
names; those below one root share what they have, so that what becomes free there helps nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from dray.api.objects import Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Reason
from dray.scheduling.model.status import Status
from dray.scheduling.quota.turns import Turn

if TYPE_CHECKING:
    from dray.scheduling.quota.queue_charges import QueueCharges


PLUGIN: Final = "QueueQuota"
"""The plugin that asks."""


class Asset(NamedTuple):
    """What a queue counts: a resource, on nodes of a flavor where it has flavors."""

    flavor: str
    resource: str


class DeviceUse(NamedTuple):
    """Devices of one class that a claim holds, or asks for as long as it holds none."""

    class_name: str
    number: int
    capacity: Mapping[str, int] = {}
    """What of their capacity, by its name."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods that want quota: one, or those of a group that start together."""

    pods: tuple[Pod, ...]
    queue: str
    wanted: Mapping[str, int]
    """By resource."""
    priority: int
    """Among those that want something of the queues."""
    now: float = 0.0
    """When they ask."""

    @property
    def pod(self) -> Pod:
        """The one that speaks for all: they have one priority."""
        return self.pods[0]


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """Pods on nodes that are removed together: those of a group, or a single one."""

    pods: tuple[Pod, ...]
    queue: str
    assets: frozenset[Asset]
    """What of its queue it holds some of."""
    priority: int
    """The highest of them."""
    start: str
    """When the first of them started."""


class ReclaimTrial(Protocol):
    """Units removed in thought. All come back at the end."""

    def units(self, queues: Iterable[str]) -> list[RunningUnit]:
        """Those that are charged to queues and could be removed; those going already are out of sight."""

    def remove(self, unit: RunningUnit) -> None:
        """Its queue has what it held."""

    def restore(self, unit: RunningUnit) -> None: ...

    def is_placeable(self) -> bool:
        """Whether there is a place for the pods that ask, with those away that are removed: nobody is removed in vain.

        It costs about as much as an attempt to place them; asked when there is room in the queue."""


class Removals(Protocol):
    """Who may be removed for the sake of pods that find no place."""

    retry_at: float
    """When more may be removed than now, if nothing else changes; infinite where that is never."""
    hopeless: bool
    """Whether nobody may be removed at all, as can be told without a look at anybody."""

    def may_go(self, pod: Pod) -> bool:
        """Whether the pod may be removed at all."""

    def legal(self, units: Iterable[tuple[Pod, ...]]) -> list[tuple[Pod, ...]]:
        """As many of the units as may be removed together, those first that are the last to go."""

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        """Whether some of them go for what is due to another queue, whatever their priority."""


class QueuePolicy(Protocol):
    label: str
    """By which a pod names its queue."""
    kinds: frozenset[str]
    """Of the objects it reads, as they are named to the scheduler."""
    served: bool
    """Whether there can be such queues at all; where there cannot, what a pod says of its queue means nothing."""
    charges: QueueCharges

    @property
    def counts_capacity(self) -> bool:
        """Whether some queue has quota for the capacity of devices."""

    def kept_for(self, pod: Pod) -> int:
        """For how many pods the group of a pod on a node keeps quota; 0 where it keeps none."""

    def put(self, kind: str, document: Object) -> None: ...

    def remove(self, kind: str, document: Object) -> None: ...

    def outdate(self) -> None:
        """Classes or nodes changed by which pods are counted."""

    # What is counted

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod is in a queue by words of this front end, also in one that does not exist."""

    def queue_of(self, pod: Pod) -> str | None:
        """The queue that the pod is charged to; None where it names none that exists."""

    def root(self, queue: str) -> str: ...

    def roots(self, queue: str) -> tuple[str, ...]:
        """What there is more of when pods of the queue go."""

    def rivals(self, queue: str) -> str:
        """What all queues have in common from whose pods those of the queue may take a place."""

    def lacks(self, queue: str, reason: Reason) -> str:
        """Of these the one that somebody in the queue lacks, who is told so."""

    def related(self, queue: str) -> Iterable[str]:
        """The queues below the root of one, itself too."""

    def priority(self, pod: Pod) -> int:
        """Among the pods of its queues; that of the pod unless something else is said."""

    def requests(self, queue: str, pod: Pod) -> dict[str, int]:
        """What the pod itself takes of the queue, by resource, beside the devices of its claims."""

    def devices(self, queue: str, uses: Iterable[DeviceUse]) -> dict[str, int]:
        """What the devices of a claim come to, by resource of the queue."""

    def excludes(self, queue: str, class_name: str) -> Reason | None:
        """Why pods of the queue may have no devices of a class, however many are free."""

    def assets(self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int]) -> dict[Asset, int]:
        """What amounts that the pod has on a node are charged to."""

    def reservation(self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int]) -> dict[Asset, int]:
        """What is to be kept for a pod that waits for others to leave a node."""

    def charge(self, queue: str, assets: Mapping[Asset, int], sign: int) -> None:
        """Pods of the queue hold so much more, or less where the sign is negative."""

    # Whether there is room

    def problem(self, pod: Pod, namespace: Mapping[str, str]) -> Reason | None:
        """Why the pod cannot be let in whatever is free; `namespace` are the labels of its own."""

    def short(self, ask: Ask) -> Reason | None:
        """What there is too little of, wherever the pods go."""

    def gives_way(self, queue: str) -> bool:
        """Whether pods of the queue may have to go for those of others that lack no quota, since it has more than its
        share."""

    def may_remove(self, ask: Ask, queue: str, priority: int) -> bool:
        """Whether a pod of the queue and priority may have to go so that those that ask get quota they lack, as far as
        can be told cheaply."""

    def is_hopeful(self, queue: str, priority: int, wanted: Iterable[tuple[str, int]]) -> bool:
        """Whether it is worth while to try pods of a priority that lacked something: there is enough, or others may
        have to go. Cheap, and never wrongly no."""

    def has_room(self, queue: str, kept: Mapping[Asset, int]) -> bool:
        """Whether pods that so much is charged for while it is kept for them may have it now. Cheap, and never wrongly
        no."""

    def short_on(self, ask: Ask, node: Node) -> Status | None:
        """The same for one node; asked only where `short` found nothing. The plugin's name is filled in."""

    def is_uniform(self, queue: str) -> bool:
        """Whether it makes no difference to which node a pod goes: then `short_on` need not be asked."""

    def rank(self, ask: Ask, node: Node) -> int:
        """How good a node is for the pods, from 0 to 100, where it makes a difference to the queue."""

    def flavors_on(self, ask: Ask, node: Node) -> tuple[str | None, ...]:
        """What the pods would be charged to on a node, where it makes a difference to the queue."""

    # Order and reclaim

    def is_held_up(self, ask: Ask) -> bool:
        """Whether others of the queue have to go first, even if there is room for these pods."""

    def wait(self, pod: Pod, arrival: int) -> Turn | None:
        """The pod waits from now on; `arrival` is its place among all that wait. Gives whose turn it waits for, where
        queues take turns."""

    def forget(self, pod: Pod) -> None:
        """It does not wait any more."""

    def let_pass(self, pod: Pod) -> None:
        """The pod waits for something else than room: until it is told to wait again, nobody waits for it."""

    def removals(self, ask: Ask) -> Removals:
        """Who may be removed for the sake of pods that find no place."""

    def may_reclaim(self, ask: Ask) -> bool:
        """Whether somebody might have to go so that there is room, as far as can be told cheaply."""

    def reclaim(self, ask: Ask, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """The units to remove so that there is room, and what is to be kept for the pods meanwhile; None where that
        cannot be. No units: what is going already is enough."""
