"""Details of a rejection on one node, for explanations: what was wanted and what is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UntoleratedTaint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class LabelMismatch:
    """A label of a node that is not as the pod's node selector or required affinity wants it."""

    key: str
    operator: str
    values: tuple[str, ...]
    actual: str | None
    """None where the node has no such label."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of a resource that a node has an amount of."""

    resource: str
    wanted: int
    left: int
    allocatable: int


Detail = UntoleratedTaint | LabelMismatch | Shortage
