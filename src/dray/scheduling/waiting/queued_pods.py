"""Records of waiting pods: `QueuedPod` for each pod, `Wait` for what a refused pod waits for, and `WaitEntry` for
refused pods that wait for the same.

Only the queue and its parts change these records.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop
from math import inf
from typing import Final, NamedTuple

from dray.scheduling.core.feasible_nodes import Signature
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis
from dray.scheduling.quota.turns import Turn


class Wait(NamedTuple):
    """What a refused pod waits for. The queue keeps the pod under its key, and matching events wake the pod."""

    key: Hashable
    """Pods with the same key wait together: what helps one of them helps any."""
    signature: Signature | None = None
    """The signature of the pods with this key; None if it is not known what would help."""
    nodes: frozenset[int] | None = None
    """Numbers of the nodes where a change may help; None for any node."""
    cluster_wide: bool = False
    """Whether adding a pod to any node, or removing one, may help."""
    objects: tuple[ObjectRef, ...] = ()
    """Objects whose change may help."""
    quota: tuple[ObjectRef, ...] = ()
    """The quota objects that may help when quota is freed."""
    binding: bool | None = False
    """Whether pods that are being bound may be evicted afterwards; None if this was not checked again."""
    futile: bool | None = False
    """Whether no eviction helps; None if this was not checked again."""
    at: float = inf
    """The time when the pod is tried again even if nothing happens."""
    error: bool = False
    """Whether the attempt failed: it is not known what would help, so the pod is tried again after a while."""


class SubQueue(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """The pod is assumed on a node and being bound."""


class Seen(NamedTuple):
    """How far changes of the state were read: the position in `State.helped`, and revisions of pods and nodes."""

    helped: int = 0
    pods: int = 0
    nodes: int = 0


_NOTHING_SEEN: Final = Seen()


@dataclass(eq=False, slots=True)
class QueuedPod:
    pod: Pod
    arrival: int
    """The place of the pod in the order of creation, which is the same after a restart."""
    added: float
    subqueue: SubQueue = SubQueue.GATED
    attempts: int = 0
    errors: int = 0
    entry: WaitEntry | None = None
    """The entry of the pods with which the pod waits, or waited before it was tried again."""
    reported: Diagnosis | GroupDiagnosis | None = None
    """The last reported diagnosis of the pod."""
    turn: Turn | None = None
    """The turn that the pod waits for, if queues take turns."""

    def report(self, diagnosis: Diagnosis | GroupDiagnosis | None) -> bool:
        """Sets the reported diagnosis; returns whether it differs from the last one."""
        before, self.reported = self.reported, diagnosis
        return before != diagnosis


@dataclass(eq=False, slots=True)
class WaitEntry:
    """Unschedulable pods that wait for the same, so that a change that helps one of them helps any. Only the first pod
    is tried, and the next one if the first was placed. `trying` is the pod that is being tried."""

    wait: Wait
    diagnosis: Diagnosis | None = None
    """The diagnosis of the pod that was tried last; None for pods that are placed as a group."""
    members: dict[str, QueuedPod] = field(default_factory=dict)
    order: list[tuple[int, str]] = field(default_factory=list)
    trying: QueuedPod | None = None
    failures: int = 0
    not_before: float = 0.0
    timer: float = 0.0
    """The time of the earliest timer of the entry."""
    binding: bool = False
    """Whether pods that are being bound may be evicted for the pods afterwards."""
    futile: bool = False
    """Whether no eviction helps."""
    seen: Seen = _NOTHING_SEEN
    """The changes that were known when a pod of the entry was last tried, or that this caused."""

    def renew(self, wait: Wait) -> None:
        """Takes the wait of the pod that was tried last; what that attempt did not check again is kept."""
        self.wait = wait
        if wait.binding is not None:
            self.binding = wait.binding
        if wait.futile is not None:
            self.futile = wait.futile

    def await_binding(self, *, binding: bool) -> None:
        """Notes whether pods that are being bound may be evicted for the pods afterwards."""
        self.binding = binding

    def reconsider_evictions(self) -> None:
        """Notes that evictions may help the pods now, although they did not before."""
        self.futile = False

    def first(self) -> QueuedPod | None:
        while self.order:
            queued = self.members.get(self.order[0][1])
            if queued is not None:
                return queued
            heappop(self.order)
        return None
