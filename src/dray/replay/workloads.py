"""Workload: pods that come together, with their claims, when they come and how long they run.

`World` is what they are played against: nodes, devices and queues, with the pods that run already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dray.api.objects import Object


@dataclass(frozen=True, slots=True)
class Workload:
    objects: Callable[[str], list[Object]]
    """Makes its claims, its group and its pods, in this order, under the given name. A worker process needs it too."""
    units: int
    """The requested devices, in thousandths."""
    size: str
    """The requested devices as reports name them: `0.5`, `8`, `1g.10gb`."""
    created: float = 0.0
    """The time at which the workload is created, in seconds."""
    seconds: float | None = None
    """How long it runs; None if it does not end."""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class World:
    objects: Mapping[str, Sequence[Object]]
    """Objects by the kind under which the scheduler receives them."""
    drivers: frozenset[str]
    """The drivers whose devices are measured."""
