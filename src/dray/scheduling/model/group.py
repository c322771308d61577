"""Group: a group of pods that start together, whichever API describes it.

Groups form trees. A group with children has no pods of its own, and is placed together with all groups below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dray.api.objects import Key, Object

Path = tuple[str, ...]
"""Node labels from coarse to fine. Nodes with the same values of all labels are in one domain."""


POD: Final = "Pod"
"""The kind of a group that consists of a single pod."""


class GroupKey(NamedTuple):
    api: str
    """The API group of the object that describes the group; several APIs have a kind PodGroup."""
    namespace: str
    name: str
    kind: str = "PodGroup"
    """The kind of the object that describes the group, or of the part of it (a sub-group)."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology domains that the pods of a group have to be in."""

    required: Path = ()
    """The level of which all pods must be in one domain; empty: any nodes."""
    preferred: Path = ()
    """The level of which all pods should be in one domain, or else in few domains."""
    slices: tuple[tuple[Path, int], ...] = ()
    """Levels with a number of consecutive pods that must be in one domain of the level; coarse levels first."""
    levels: Path = ()
    """The levels of the topology: pods that do not fit in one domain use few domains. Empty if not needed."""
    least_free: bool = False
    """Whether domains with the least room are filled first, instead of using few domains."""
    slices_preferred: Path = ()
    """The level of which the pods of each of the finest slices should be in one domain."""

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
    """How many pods have to start together; 0: each pod may start alone."""
    priority: int | None
    """The priority that all pods of the group must have; None: any."""
    topology: Topology
    whole: bool
    """Whether the pods of the group are evicted together, and not one by one."""
    document: Object = field(compare=False)
    """The newest version of the object that describes the group."""
    timeout: float | None = None
    """Number of seconds without a placement after which the group moves behind other groups; None: never."""
    min_resources: Mapping[str, int] = field(default_factory=dict)
    """Resources that all nodes together must have left before the group is tried."""
    parent: GroupKey | None = None
    min_groups: int = 0
    """How many child groups have to start together; 0: each child may start alone."""
    queue: str = ""
    """The name of the queue of the group; empty if the group names no queue (its pods may name one)."""
    preemptible: bool | None = None
    """Whether pods of the group can be preempted; None: the priority of the pods decides."""
    priority_class: str = ""
    """The PriorityClass whose value replaces the priority of the pods; empty: each pod keeps its priority."""
    expected: int = 0
    """How many pods will be created in total, if they start one by one. The queue admits the first pod only if it has
    quota for all of them."""
    kept: int = 0
    """The number of pods that the queue keeps quota for, as long as one of them exists, while others are replaced."""
    unknown: str = ""
    """An object that the group names and that does not exist; the group waits for this object."""
    ordered_by_pods: bool = False
    """Whether the group is tried in the order in which its first pod was created, not the object of the group."""


def pod_key(key: Key) -> GroupKey:
    """The key of the group that consists of a single pod, by the key of the pod."""
    return GroupKey("", *key, POD)


def single(key: Key, uid: str, document: Object) -> Group:
    """The group that consists of a single pod."""
    return Group(pod_key(key), uid, 1, None, ANYWHERE, False, document)
