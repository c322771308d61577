"""QueueContext: the parts of the scheduler's state that queue systems use."""

from __future__ import annotations

from dataclasses import dataclass

from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.cluster.cluster_capacity import ClusterCapacity
from dray.scheduling.cluster.extended import ResourceMap
from dray.scheduling.model.journal import Journal
from dray.scheduling.quota.known_groups import KnownGroups
from dray.scheduling.quota.quota_log import QuotaLog


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
