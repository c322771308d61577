"""Whether a node could take a pod, its devices and its neighbours aside: Kubernetes' filters, their order and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.objects import Object
from dray.scheduling.model import PODS, Amounts, Needs, Node
from dray.scheduling.tolerations import repelled

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
UNSELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS: Final = "Too many pods"

UNRESOLVABLE: Final = frozenset({UNSCHEDULABLE, TAINTED, UNSELECTED})
"""What stays in the way whichever pods leave the node."""

_CORDON: Final[Object] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_FIRST: Final = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}
# Nobody reads more of them.
_MOST_NAMED: Final = 20
_NONE: Final[Amounts] = {}
_NOTHING: Final[frozenset[str]] = frozenset()


def standing(needs: Needs, node: Node) -> str | None:
    """The first obstacle that does not depend on what else runs there."""
    if node.unschedulable and not needs.tolerations.cover(_CORDON):
        return UNSCHEDULABLE
    if node.taints and repelled(node.taints, needs.tolerations):
        return TAINTED
    return None if selects(needs, node.name, node.labels) else UNSELECTED


def selects(needs: Needs, name: str, labels: Mapping[str, str]) -> bool:
    """Whether nodeSelector and required node affinity let the pod on a node of that name with those labels."""
    for key, value in needs.selector.items():
        if labels.get(key) != value:
            return False
    return needs.required is None or needs.required.any(name, labels)


def room(needs: Needs, extra: Amounts, node: Node, ignored: frozenset[str]) -> tuple[str, ...]:
    """What the node has too little of, beside the pods that are there; nothing where the pod fits.

    `extra` is what the pod's devices take from the node, `ignored` names resources that devices serve there.
    """
    if needs.ports and node.ports and node.ports.collide(needs.ports):
        return (PORTS_TAKEN,)
    allocatable, requested = node.allocatable, node.requested
    short = []
    for name, amount in needs.requests.items():
        if extra and name in extra:
            amount += extra[name]
        if amount > allocatable.get(name, 0) - requested.get(name, 0) and name not in ignored:
            short.append(name)
            if len(short) >= _MOST_NAMED:
                break
    for name, amount in extra.items() if extra else ():
        if name not in needs.requests and amount > allocatable.get(name, 0) - requested.get(name, 0):
            short.append(name)
    crowded = len(node.pods) >= allocatable.get(PODS, 0)
    if not short:
        return (TOO_MANY_PODS,) if crowded else ()
    reasons = [f"Insufficient {name}" for name in sorted(short, key=_order)]
    return (TOO_MANY_PODS, *reasons) if crowded else tuple(reasons)


def never_fits(needs: Needs, node: Node, extra: Amounts = _NONE, ignored: frozenset[str] = _NOTHING) -> bool:
    """Whether the pod asks for more than the node has when it is empty."""
    allocatable = node.allocatable
    for name, amount in needs.requests.items():
        if amount + extra.get(name, 0) > allocatable.get(name, 0) and name not in ignored:
            return True
    return any(amount > allocatable.get(name, 0) for name, amount in extra.items())


def _order(name: str) -> tuple[int, str]:
    return _FIRST.get(name, len(_FIRST)), name
