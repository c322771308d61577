"""Outcome: what an attempt to place a pod leads to. The steps of an attempt return it; `_apply` carries it out.

Two steps still change something themselves: quota notes what a pod was told, and reclaim keeps quota for the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dray.api.objects import Object
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.node import Node
from dray.scheduling.model.status import Diagnosis
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.waiting.waits import Wait


class Remedy(Enum):
    PLACE = auto()
    """The pod goes to a node."""
    GATE = auto()
    """The pod is not tried until something that it names exists."""
    DISCARD = auto()
    """A claim that was left from an earlier attempt is deleted first."""
    RELEASE = auto()
    """Devices that only the pod uses are given back, so that it can have others."""
    SEARCH = auto()
    """The search for devices goes on elsewhere."""
    RECLAIM = auto()
    """Pods are evicted for quota of the pod's queue; quota is kept for it already."""
    PREEMPT = auto()
    """Pods are evicted for a place."""
    WAIT = auto()
    """Nothing helps but a change."""


@dataclass(frozen=True, slots=True)
class Outcome:
    remedy: Remedy
    diagnosis: Diagnosis | None = None
    """Why no node fits; None only for PLACE and GATE."""
    wait: Wait | None = None
    """What the pod waits for; None only for PLACE and GATE."""
    placement: Placement | None = None
    claim: Object | None = None
    """The claim to discard or to release."""
    searches: tuple[Node, ...] = ()
    """Nodes on which the search for devices goes on."""
    preemption: Preemption | None = None
    may_reserve: bool = False
    """Whether a place may be reserved that running pods will leave when they end."""
    lacks_quota: bool | None = None
    """Whether the pod lacks quota rather than a place; None for a pod that asked for no quota."""
