"""EvictionResult: what a search for pods to evict has found, and what it learnt if it found none."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


# Without slots: Python 3.11 cannot make a generic frozen class with slots from `EvictionResult[T]()`.
@dataclass(frozen=True)
class EvictionResult(Generic[T]):
    found: T | None = None
    """The pods to evict, and the places that this makes; None if no eviction helps."""
    awaits_binding: bool = False
    """Whether pods were left out only because they are being bound: the search may find more afterwards."""
    lacks_place: bool = False
    """Whether evictions would free enough quota, but no node would have a place."""
    retry_at: float = inf
    """When more pods may be evicted than now, if nothing else changes."""
