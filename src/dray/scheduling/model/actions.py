"""Actions: what the scheduler wants written to the API server.

The scheduler has assumed the result already. The caller writes it and reports whether that succeeded.
"""

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
    """A write to a claim before its pod is bound: the consumer, and the allocation if it is new."""

    claim: Object
    """The claim at the time of the decision. A special claim does not exist yet and has to be created."""
    allocation: Object | None
    consumer: Object
    """The entry for `reservedFor`: the pod, or its group."""
    special: bool = False
    """Whether the claim was generated for extended resources of the pod."""


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Pod
    node: str
    writes: tuple[ClaimWrite, ...]
    claims: tuple[Object, ...]
    """The claims of the pod at the time of the decision, including claims that are not written."""
    mappings: tuple[Object, ...] = ()
    """Entries for the status of the pod: which container gets which request of the special claim."""
    node_allocatable: tuple[Object, ...] = ()
    """Entries for the status of the pod: resources that its devices take from the node."""
    volumes: tuple[Object, ...] = ()
    """PersistentVolumeClaims that wait for this pod: they get its node, and must be bound before the pod."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods to evict so that another pod fits; no victims if pods that are being deleted free enough."""

    node: str
    victims: tuple[Pod, ...]
    allocation: tuple[Object, ...] = ()
    """The devices that the other pod will get."""
    reclaims: bool = False
    """Whether victims are evicted to reclaim quota of the pod's queue, whatever their priority."""


@dataclass(frozen=True, slots=True)
class Refuse:
    pod: Pod
    diagnosis: Diagnosis
    news: bool = True
    """Whether the diagnosis differs from the last one that was reported."""
    release: Object | None = None
    """A claim to deallocate: with its devices the pod fits on no node."""
    discard: Object | None = None
    """A claim for extended resources to delete, which an earlier attempt left behind."""
    preemption: Preemption | None = None

    @property
    def message(self) -> str:
        return diagnosis_text(self.diagnosis)

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        return SCHEDULER_ERROR if self.diagnosis.error else UNSCHEDULABLE


@dataclass(frozen=True, slots=True)
class BindGroup:
    """Binds all pods of a group or none: the claims of all pods are written before the first pod is bound."""

    group: Group
    binds: tuple[Bind, ...]


@dataclass(frozen=True, slots=True)
class GroupPreemption:
    """Pods to evict so that a group fits; no victims if pods that are being deleted free enough."""

    victims: tuple[Pod, ...]
    places: Mapping[str, Preemption]
    """The node and devices that each pod of the group will get, by its uid."""
    reclaims: bool = False
    """Whether victims are evicted to reclaim quota of the group's queue, whatever their priority."""


@dataclass(frozen=True, slots=True)
class RefuseGroup:
    group: Group
    pods: tuple[Pod, ...]
    diagnosis: GroupDiagnosis
    release: tuple[Object, ...] = ()
    """Claims to deallocate: with their devices the group fits nowhere."""
    preemption: GroupPreemption | None = None
    news: bool = True
    """Whether the diagnosis differs from the last one that was reported."""

    @property
    def message(self) -> str:
        return group_text(self.diagnosis)

    @property
    def reason(self) -> str:
        return SCHEDULER_ERROR if self.diagnosis.error else UNSCHEDULABLE


Action = Bind | Refuse | BindGroup | RefuseGroup
