"""Cycle: what is known during one attempt to schedule a pod; plugins leave there what they prepare for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dray.allocation import Work
from dray.scheduling.model import Node, Pod
from dray.scheduling.pod_claims import DevicePlan, PodClaims

if TYPE_CHECKING:
    from dray.scheduling.feasible_nodes import FeasibleNodes


class Cycle:
    __slots__ = ("claims", "data", "devices", "feasible", "nodes", "now", "pod", "skipped", "undecided", "work")

    def __init__(self, pod: Pod, now: float, work: Work, claims: PodClaims) -> None:
        self.pod = pod
        self.now = now
        self.work = work
        """What may be spent on it, over all nodes."""
        self.claims = claims
        """The pod's claims as they are now."""
        self.data: dict[str, Any] = {}
        """By plugin name."""
        self.skipped: set[str] = set()
        """The plugins that have nothing to say about the pod."""
        self.nodes: frozenset[int] | None = None
        """The only nodes that come into question, by number, because of claims that have devices already."""
        self.feasible: FeasibleNodes | None = None
        """The nodes as they are for pods of its signature."""
        self.devices: DevicePlan | None = None
        """The devices on the node that was filtered last."""
        self.undecided: dict[str, Node] = {}
        """Where the search for devices was given up for lack of work; elsewhere it may go on."""
