"""Wait: what a refused pod waits for. The queue files the pod by it, and events that match it wake the pod."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from dray.scheduling.core.feasible_nodes import Signature
from dray.scheduling.model.reasons import ObjectRef


@dataclass(frozen=True, slots=True)
class Wait:
    key: Hashable
    """Pods with the same key wait together: what helps one of them helps any."""
    signature: Signature | None = None
    """What pods of the key have in common; None if it is not known what would help."""
    nodes: frozenset[int] | None = None
    """Numbers of the nodes where a change may help; None for any node."""
    cluster_wide: bool = False
    """Whether pods that come to any node or leave one may help."""
    objects: tuple[ObjectRef, ...] = ()
    """Objects whose change may help."""
    quota: tuple[ObjectRef, ...] = ()
    """Quota that may help when there is more of it."""
    binding: bool | None = False
    """Whether pods that are being bound may be evicted afterwards; None if this was not looked at again."""
    futile: bool | None = False
    """Whether no eviction helps; None if this was not looked at again."""
    at: float = inf
    """When more may be possible although nothing has happened."""
    error: bool = False
    """Whether the attempt failed: it is not known what would help, so the pod is tried again after a while."""
