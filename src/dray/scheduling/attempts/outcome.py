"""Outcome: the result of an attempt to place pods. `Attempt.decide` returns it, and `Effects` carries it out."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from dray.api.objects import Object
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.node import Node
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy
from dray.scheduling.quota.reserved_quota import ReservedQuota
from dray.scheduling.waiting.queued_pods import QueuedPod
from dray.scheduling.waiting.waits import Wait


class Remedy(Enum):
    PLACE = auto()
    """The pods are placed on nodes."""
    GATE = auto()
    """The pods are not tried until an object that they name exists."""
    DISCARD = auto()
    """A claim of an earlier attempt is deleted first."""
    RELEASE = auto()
    """Claims that only the pods use are deallocated, so that they can get other devices."""
    SEARCH = auto()
    """The search for devices continues in the background."""
    EVICT = auto()
    """Other pods are evicted to free nodes, quota, or both."""
    WAIT = auto()
    """The pods wait for a change."""


class Unmet(NamedTuple):
    """A request to a queue that was not met. The pods are tried again when others take quota that is due to them."""

    policy: QueuePolicy
    ask: Ask
    lacks_quota: bool
    """Whether the pods lacked quota; otherwise they had quota and fit on no node."""


class Outcome(NamedTuple):
    remedy: Remedy
    diagnosis: Diagnosis | GroupDiagnosis | None = None
    """Why no node fits; None only for PLACE and GATE."""
    wait: Wait | None = None
    """The changes that the pods wait for; None only for PLACE and GATE."""
    placements: tuple[tuple[QueuedPod, Placement], ...] = ()
    """Pods with their places. Pods of a group are assumed already, since the trial that found the places is kept."""
    rejected: tuple[tuple[QueuedPod, Status], ...] = ()
    """Pods of a group that the prefilter rejected."""
    claims: tuple[Object, ...] = ()
    """The claims to discard or to release."""
    searches: tuple[Node, ...] = ()
    """Nodes on which the search for devices continues."""
    preemption: Preemption | None = None
    quota: ReservedQuota | None = None
    """The quota that the evictions free; None if the pods have quota already."""
    unmet: Unmet | None = None
    may_reserve: bool = False
    """Whether a place may be reserved that is free when running pods end."""
