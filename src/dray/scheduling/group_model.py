"""Group: what the scheduler knows of a group of pods, whichever API it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api.objects import Object


class GroupKey(NamedTuple):
    api: str
    """The API group of the object that describes the group: there are several kinds PodGroup."""
    namespace: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Group:
    key: GroupKey
    uid: str
    min_count: int
    """So many pods start together or none does; 0 where each may start by itself."""
    priority: int | None
    """All pods of the group have it; None where they may have any."""
    topology: str
    """A label: all pods go to nodes with the same value of it. Empty where they may go anywhere."""
    whole: bool
    """Whether its pods are removed together, or one by one."""
    document: Object = field(compare=False)
    """The object, as it was last seen."""
    timeout: float | None = None
    """After so many seconds in which it could not be placed it goes behind the others."""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    """What all nodes together must have left before it is tried."""
