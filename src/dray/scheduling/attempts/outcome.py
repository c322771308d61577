"""Outcome: what an attempt to place pods leads to. `Attempt.decide` returns it, and `Effects` carries it out."""

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
    """The pods go to nodes."""
    GATE = auto()
    """The pods are not tried until something that they name exists."""
    DISCARD = auto()
    """A claim that was left from an earlier attempt is deleted first."""
    RELEASE = auto()
    """Devices that only the pods use are given back, so that they can have others."""
    SEARCH = auto()
    """The search for devices goes on elsewhere."""
    EVICT = auto()
    """Other pods are evicted for a place, for quota, or for both."""
    WAIT = auto()
    """Nothing helps but a change."""


class Unmet(NamedTuple):
    """A request to a queue that was not met. The pods are tried again when others take quota that is due to them."""

    policy: QueuePolicy
    ask: Ask
    lacks_quota: bool
    """Whether the pods lacked quota, rather than a place."""


class Outcome(NamedTuple):
    remedy: Remedy
    diagnosis: Diagnosis | GroupDiagnosis | None = None
    """Why no node fits; None only for PLACE and GATE."""
    wait: Wait | None = None
    """The pods wait for this; None only for PLACE and GATE."""
    placements: tuple[tuple[QueuedPod, Placement], ...] = ()
    """Pods with their places. Pods of a group are assumed already, since the trial that found the places is kept."""
    rejected: tuple[tuple[QueuedPod, Status], ...] = ()
    """Pods of a group that fit on no node whatever the nodes say."""
    claims: tuple[Object, ...] = ()
    """The claims to discard or to release."""
    searches: tuple[Node, ...] = ()
    """Nodes on which the search for devices goes on."""
    preemption: Preemption | None = None
    quota: ReservedQuota | None = None
    """Quota that the evictions make free; None if the pods have quota and lack a place."""
    unmet: Unmet | None = None
    may_reserve: bool = False
    """Whether a place may be reserved that running pods will leave when they end."""
