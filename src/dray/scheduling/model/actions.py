"""Actions: what the scheduler wants written. It has assumed all of it already; the loop around it says how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object
from dray.scheduling.model.group import Group
from dray.scheduling.model.messages import diagnosis_text, group_text
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


@dataclass(frozen=True, slots=True)
class ClaimWrite:
    """To be written to a claim before its pod is bound: who uses it, and the allocation if there is one."""

    claim: Object
    """As it was when decided. A special claim has yet to be created."""
    allocation: Object | None
    consumer: Object
    """The pod, or the group it belongs to."""
    special: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Pod
    node: str
    writes: tuple[ClaimWrite, ...]
    claims: tuple[Object, ...]
    """All claims of the pod as they were, written or not."""
    mappings: tuple[Object, ...] = ()
    """For the pod's status: which container gets which request of the special claim."""
    node_allocatable: tuple[Object, ...] = ()
    """For the pod's status: what its devices take from the node."""
    volumes: tuple[Object, ...] = ()
    """Claims for volumes that wait for the pod: they get its node, and must be bound before it is."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods to be removed so that another finds its place; none if those that are going already will do."""

    node: str
    victims: tuple[Pod, ...]
    allocation: tuple[Object, ...] = ()
    """The devices that the other pod counts on."""
    reclaims: bool = False
    """Whether some of them go for what is due to its queue, whatever their priority."""


@dataclass(frozen=True, slots=True)
class Refuse:
    pod: Pod
    diagnosis: Diagnosis
    news: bool = True
    """Whether it is another diagnosis than the last one."""
    release: Object | None = None
    """A claim whose devices are in the way and should be given back."""
    discard: Object | None = None
    """A claim that an earlier attempt left behind."""
    preemption: Preemption | None = None

    @property
    def message(self) -> str:
        return diagnosis_text(self.diagnosis)

    @property
    def reason(self) -> str:
        """Of the PodScheduled condition."""
        return SCHEDULER_ERROR if self.diagnosis.error else UNSCHEDULABLE


@dataclass(frozen=True, slots=True)
class BindGroup:
    """All of it is written, or none: the claims of all pods before the first is bound."""

    group: Group
    binds: tuple[Bind, ...]


@dataclass(frozen=True, slots=True)
class GroupPreemption:
    """Pods to be removed so that a group finds its places; none if those that are going already will do."""

    victims: tuple[Pod, ...]
    places: Mapping[str, Preemption]
    """Where each pod of the group is to go, by its uid."""
    reclaims: bool = False


@dataclass(frozen=True, slots=True)
class RefuseGroup:
    group: Group
    pods: tuple[Pod, ...]
    diagnosis: GroupDiagnosis
    release: tuple[Object, ...] = ()
    """Claims whose devices are in the way and should be given back."""
    preemption: GroupPreemption | None = None
    news: bool = True
    """Whether it is another diagnosis than the last one."""

    @property
    def message(self) -> str:
        return group_text(self.diagnosis)

    @property
    def reason(self) -> str:
        return SCHEDULER_ERROR if self.diagnosis.error else UNSCHEDULABLE


Action = Bind | Refuse | BindGroup | RefuseGroup
