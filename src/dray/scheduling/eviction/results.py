"""EvictionResult: the result of a search for pods to evict, with what it found out if there are none."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.reserved_quota import ReservedQuota


@dataclass(frozen=True, slots=True)
class EvictionResult:
    found: Preemption | None = None
    """The pods to evict, and the places that this frees; None if no eviction helps."""
    awaits_binding: bool = False
    """Whether pods were left out only because they are being bound: the search may find more afterwards."""
    lacks_place: bool = False
    """Whether evictions would free enough quota, but the pods would fit on no node."""
    lacks_quota: ObjectRef | None = None
    """The quota that is used up even without the pods that may be evicted; the pods wait for it too."""
    retry_at: float = inf
    """The time when more pods may be evicted than now, if nothing else changes."""
    quota: ReservedQuota | None = None
    """The quota that the evictions free, which is to be reserved; None if the pods have quota already."""


NO_EVICTION: Final = EvictionResult()
"""The result if no search was made, or if nothing can be evicted."""
