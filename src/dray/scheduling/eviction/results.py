"""EvictionResult: the result of a search for pods to evict, with what it found out if there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    def and_later(self, other: EvictionResult) -> EvictionResult:
        """Returns this result, with changes that both searches wait for."""
        if other is NO_EVICTION:
            return self
        awaits_binding = self.awaits_binding or other.awaits_binding
        return replace(self, awaits_binding=awaits_binding, retry_at=min(self.retry_at, other.retry_at))


NO_EVICTION: Final = EvictionResult()
"""The result if no search was made, or if nothing can be evicted."""
