"""NodeResourcesFit: rejects nodes with too few resources, and prefers nodes with more left (LeastAllocated)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import PODS, Amounts, Pod, Requirements
from dray.scheduling.model.reasons import Code, Reason, Shortage
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import Depends, Plugin

_FIRST: Final = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}
# The maximum number of resources that a reason names.
_MOST_NAMED: Final = 20
_NONE: Final[Amounts] = {}
_NO_NAMES: Final[frozenset[str]] = frozenset()
_TOO_MANY_PODS: Final = Reason(Code.TOO_MANY_PODS)


class NodeResourcesFit(Plugin):
    depends_on = Depends.PODS

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        demand = cycle.claims.demand
        served = demand.served(node) if demand else _NO_NAMES
        return insufficient(cycle.pod.requirements, node, served=served)

    def details(self, cycle: Cycle, node: Node) -> tuple[Shortage, ...]:
        served = cycle.claims.demand.served(node)
        found = []
        for name, wanted in cycle.pod.requirements.requests.items():
            allocatable = node.allocatable.get(name, 0)
            left = allocatable - node.requested.get(name, 0)
            if wanted > left and name not in served:
                found.append(Shortage(name, wanted, left, allocatable))
        return tuple(found)

    def score(self, cycle: Cycle, node: Node) -> int:
        """The average percentage of cpu and memory that is left on the node."""
        wanted, used, allocatable = cycle.pod.requirements.scoring, node.scoring, node.allocatable
        total = resources = 0
        for name in ("cpu", "memory"):
            if capacity := allocatable.get(name, 0):
                resources += 1
                free = capacity - wanted.get(name, 0) - used.get(name, 0)
                if free > 0:
                    total += free * 100 // capacity
        return total // resources if resources else 0


def insufficient(
    requirements: Requirements, node: Node, *, extra: Amounts = _NONE, served: frozenset[str] = _NO_NAMES
) -> Status | None:
    """The resources of which the node has too little left for the pod.

    `extra` is what the pod's devices take from the node, `served` are extended resources that devices serve there.
    """
    allocatable, requested = node.allocatable, node.requested
    short = []
    for name, amount in requirements.requests.items():
        if extra and name in extra:
            amount += extra[name]
        if amount > allocatable.get(name, 0) - requested.get(name, 0) and name not in served:
            short.append(name)
            if len(short) >= _MOST_NAMED:
                break
    for name, amount in extra.items() if extra else ():
        if name not in requirements.requests and amount > allocatable.get(name, 0) - requested.get(name, 0):
            short.append(name)
    full = len(node.pods) >= allocatable.get(PODS, 0)
    if not short and not full:
        return None
    reasons = [Reason(Code.INSUFFICIENT, (name,)) for name in sorted(short, key=_order)]
    resolvable = all(_total(requirements, extra, name) <= allocatable.get(name, 0) for name in short)
    return Status(NodeResourcesFit.name, (_TOO_MANY_PODS, *reasons) if full else tuple(reasons), resolvable)


def room(requirements: Requirements, node: Node, served: frozenset[str], most: int) -> int:
    """Returns the number of pods with these requirements that the node has resources for, up to `most`."""
    if requirements.ports:
        most = min(most, 1)
    most = min(most, node.allocatable.get(PODS, 0) - len(node.pods))
    for name, amount in requirements.requests.items():
        if name not in served:
            most = min(most, (node.allocatable.get(name, 0) - node.requested.get(name, 0)) // amount)
    return max(0, most)


def fits_without(
    requirements: Requirements, node: Node, pods: Iterable[Pod], served: frozenset[str] = _NO_NAMES
) -> bool:
    """Whether the node has enough of all resources once those pods are removed."""
    removed = list(pods)
    for name, amount in requirements.requests.items():
        left = node.allocatable.get(name, 0) - node.requested.get(name, 0)
        if amount > left and name not in served:
            freed = sum(pod.requirements.requests.get(name, 0) + pod.extra.get(name, 0) for pod in removed)
            if amount > left + freed:
                return False
    return True


def _total(requirements: Requirements, extra: Amounts, name: str) -> int:
    return requirements.requests.get(name, 0) + extra.get(name, 0)


def _order(name: str) -> tuple[int, str]:
    return _FIRST.get(name, len(_FIRST)), name
