"""Actions: what the scheduler wants written to the API server.

The scheduler has assumed the result already. The caller writes it and reports whether that succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object
from dray.scheduling.model.group import Group
from dray.scheduling.model.messages import diagnosis_text
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
class NominatedPlace:
    node: str
    devices: tuple[Object, ...] = ()
    """The devices that a pod will get on the node."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Pods to evict so that others fit; none if pods that are being deleted already free enough."""

    victims: tuple[Pod, ...]
    places: Mapping[str, NominatedPlace]
    """The places that the other pods will get, by pod uid."""
    reclaims: bool = False
    """Whether victims are evicted to reclaim quota of the other pods' queue, whatever their priority."""


@dataclass(frozen=True, slots=True)
class BindGroup:
    """Binds all pods of a group or none: the claims of all pods are written before the first pod is bound."""

    group: Group
    binds: tuple[Bind, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Pods that were tried together cannot be placed: those of a group, or one by itself."""

    pods: tuple[Pod, ...]
    diagnosis: Diagnosis | GroupDiagnosis
    group: Group | None = None
    """The group that the pods are placed with; None for a pod by itself."""
    news: bool = True
    """Whether the diagnosis differs from the last one that was reported."""
    release: tuple[Object, ...] = ()
    """Claims to deallocate: with their devices the pods fit on no nodes."""
    discard: tuple[Object, ...] = ()
    """Claims for extended resources to delete, which an earlier attempt left behind."""
    preemption: Preemption | None = None

    @property
    def pod(self) -> Pod:
        """The first of the pods, which stands for all of them."""
        return self.pods[0]

    @property
    def message(self) -> str:
        return diagnosis_text(self.diagnosis)

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
        return SCHEDULER_ERROR if self.diagnosis.error else UNSCHEDULABLE


Action = Bind | BindGroup | Refuse
