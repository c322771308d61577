"""Group: what the scheduler knows of a group of pods, whichever API it came from.

Groups form trees: one with children holds no pods of its own, and is placed with all that is below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dray.api.objects import Key, Object

Path = tuple[str, ...]
"""Labels of nodes from coarse to fine. Nodes are in one domain where the values of all are the same."""


POD: Final = "Pod"
"""The kind of a group that stands for a single pod."""


class GroupKey(NamedTuple):
    api: str
    """The API group of the object that describes the group: there are several kinds PodGroup."""
    namespace: str
    name: str
    kind: str = "PodGroup"
    """Tells groups apart that stand for another kind of object, or for a part of one."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the pods of a group go, by the labels of nodes."""

    required: Path = ()
    """All go to one domain; anywhere where it is empty."""
    preferred: Path = ()
    """They go to one such domain where that can be, and else to few."""
    slices: tuple[tuple[Path, int], ...] = ()
    """So many that follow each other go to one domain; coarse ones first."""
    levels: Path = ()
    """All that are known, down to the finest; pods that cannot be in one domain are in few. Empty where the others say
    it all."""
    least_free: bool = False
    """Whether domains with the least room are filled first, rather than as few as possible."""
    slices_preferred: Path = ()
    """The pods of each of the finest slices go to one such domain where that can be."""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred or self.slices or self.levels)

    @property
    def finest(self) -> Path:
        return max(self.levels, self.preferred, self.required, key=len)


ANYWHERE: Final = Topology()


@dataclass(frozen=True, slots=True)
class Group:
    key: GroupKey
    uid: str
    min_count: int
    """So many pods start together or none does; 0 where each may start by itself."""
    priority: int | None
    """All pods of the group have it; None where they may have any."""
    topology: Topology
    whole: bool
    """Whether its pods are removed together, or one by one."""
    document: Object = field(compare=False)
    """The object, as it was last seen."""
    timeout: float | None = None
    """After so many seconds in which it could not be placed it goes behind the others."""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    """What all nodes together must have left before it is tried."""
    parent: GroupKey | None = None
    min_groups: int = 0
    """So many of its direct children start together or none does; 0 where each may start by itself."""
    queue: str = ""
    """The name of a queue; empty where its pods say so themselves, or there is none."""
    preemptible: bool | None = None
    """Whether its pods may be removed for others; None where their priority decides."""
    priority_class: str = ""
    """Its pods have the priority of this PriorityClass, whatever they say themselves."""
    expected: int = 0
    """Where pods start as they come: so many there will be. The first is let in where there is room for all."""
    kept: int = 0
    """For so many its queue keeps quota while one of them is there, though others come later or were replaced."""
    unknown: str = ""
    """What it names that does not exist: it waits for that."""


def single(key: Key, uid: str, document: Object) -> Group:
    """One that stands for a pod by itself."""
    return Group(GroupKey("", *key, POD), uid, 1, None, ANYWHERE, False, document)
