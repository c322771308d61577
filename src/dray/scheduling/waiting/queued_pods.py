"""Records of pods that wait: `QueuedPod`, one for each pod, and `WaitEntry`, for refused pods that wait for the same.

The queue and its parts change these records; everybody else reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop
from typing import Final, NamedTuple

from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis
from dray.scheduling.quota.turns import Turn
from dray.scheduling.waiting.waits import Wait


class SubQueue(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """Decided, and being written."""


class Seen(NamedTuple):
    """How far the changes of the state were looked at: positions of its log and revisions."""

    helped: int = 0
    pods: int = 0
    nodes: int = 0


_NOTHING_SEEN: Final = Seen()


@dataclass(eq=False, slots=True)
class QueuedPod:
    pod: Pod
    arrival: int
    """Its place in the order of creation: the same after a restart, which shows pods in the order of their names."""
    added: float
    subqueue: SubQueue = SubQueue.GATED
    attempts: int = 0
    errors: int = 0
    entry: WaitEntry | None = None
    """Those it waits with, or waited with before it was tried again."""
    reported: Diagnosis | GroupDiagnosis | None = None
    """What was last written about why it waits."""
    turn: Turn | None = None
    """What it waits for, where queues take turns."""


@dataclass(eq=False, slots=True)
class WaitEntry:
    """Unschedulable pods that wait for the same: a change that helps one of them helps any. Only the first is tried,
    and the next if that one got its place. `trying` is the one that is being tried at the moment."""

    wait: Wait
    diagnosis: Diagnosis | None = None
    """The diagnosis of the last one that was tried; None for pods that are placed as a group."""
    members: dict[str, QueuedPod] = field(default_factory=dict)
    order: list[tuple[int, str]] = field(default_factory=list)
    trying: QueuedPod | None = None
    failures: int = 0
    not_before: float = 0.0
    timer: float = 0.0
    """When a timer rings for it; of several only the earliest is kept."""
    seen: Seen = _NOTHING_SEEN
    """What had changed when one of them was last tried: they know that, as far as it was not caused by them."""

    def first(self) -> QueuedPod | None:
        while self.order:
            queued = self.members.get(self.order[0][1])
            if queued is not None:
                return queued
            heappop(self.order)
        return None
