"""QueueContext: the parts of the scheduler's state that queue systems use.

`dray.scheduling.groups` answers what they ask about groups (`KnownGroups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import Group
from dray.scheduling.model.journal import Journal
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.quota_log import QuotaLog


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


@dataclass(frozen=True, slots=True)
class QueueContext:
    claims: ClaimAssumeCache
    resources: ResourceMap
    """Extended resources and the device classes that serve them."""
    groups: KnownGroups
    capacity: ClusterCapacity
    log: QuotaLog
    """The log of quota that is freed or taken."""
    journal: Journal
    """The journal with the open trials."""
