"""KnownGroups: what queue systems ask about groups of pods. `dray.scheduling.groups` answers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod


class KnownGroups(Protocol):
    @property
    def topologies(self) -> Topologies: ...

    def of(self, pod: Pod) -> Group | None:
        """Returns the group of the pod, if it has one that exists."""
        ...

    def root(self, group: Group) -> object:
        """Returns the group that the group is placed with, or something else where its tree is invalid."""
        ...

    def unit(self, pod: Pod) -> Group | None:
        """Returns the highest group of the pod that is admitted or evicted as a whole; None for a single pod."""
        ...

    def waiting(self, group: Group) -> Iterator[Pod]: ...

    def need(self, group: Group) -> int:
        """Returns how many more pods have to be placed at once, at least one."""
        ...

    def is_elastic(self, group: Group) -> bool:
        """Returns True if pods beyond the minimum of the group are placed last and evicted first."""
        ...

    def next_to_place(self, group: Group, pods: Iterable[Pod]) -> list[Pod]:
        """Returns the waiting pods of a group that are placed next: of an elastic group as many as it lacks."""
        ...

    def surplus(self, group: Group) -> set[str]:
        """Returns the uids of running pods beyond the minimum of an elastic group."""
        ...
