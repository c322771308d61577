"""Wait: what a refused pod waits for. The queue keeps the pod under its key, and matching events wake the pod."""

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
    """The signature of the pods with this key; None if it is not known what would help."""
    nodes: frozenset[int] | None = None
    """Numbers of the nodes where a change may help; None for any node."""
    cluster_wide: bool = False
    """Whether adding a pod to any node, or removing one, may help."""
    objects: tuple[ObjectRef, ...] = ()
    """Objects whose change may help."""
    quota: tuple[ObjectRef, ...] = ()
    """The quota objects that may help when quota is freed."""
    binding: bool | None = False
    """Whether pods that are being bound may be evicted afterwards; None if this was not checked again."""
    futile: bool | None = False
    """Whether no eviction helps; None if this was not checked again."""
    at: float = inf
    """The time when the pod is tried again even if nothing happens."""
    error: bool = False
    """Whether the attempt failed: it is not known what would help, so the pod is tried again after a while."""
