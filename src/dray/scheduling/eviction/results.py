"""EvictionResult: what a search for pods to evict has found, and what it learnt if it found none."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from dray.scheduling.model.actions import Preemption
from dray.scheduling.quota.reserved_quota import ReservedQuota


@dataclass(frozen=True, slots=True)
class EvictionResult:
    found: Preemption | None = None
    """The pods to evict, and the places that this makes; None if no eviction helps."""
    awaits_binding: bool = False
    """Whether pods were left out only because they are being bound: the search may find more afterwards."""
    lacks_place: bool = False
    """Whether evictions would free enough quota, but no node would have a place."""
    retry_at: float = inf
    """The time when more pods may be evicted than now, if nothing else changes."""
    quota: ReservedQuota | None = None
    """Quota that the evictions make free, to be reserved; None if they make a place for pods that have quota."""


NO_EVICTION: Final = EvictionResult()
"""The result if no search was made, or if nothing can be evicted."""
