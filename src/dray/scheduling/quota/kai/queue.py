"""Queues of `scheduling.run.ai`: Queue objects with parents. A pod names its queue by a label or by its PodGroup.

Amounts are kept in the units in which pods are counted: GPUs, thousandths of a cpu, bytes. UNLIMITED is not converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import Object, bounded, mapping, text
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.cel.errors import EvaluationError
from dray.cel.library.moments import parse_duration
from dray.scheduling.quota.fair_share import UNLIMITED

API_GROUP: Final = "scheduling.run.ai"
KIND: Final = "Queue"
QUEUE_LABEL: Final = "kai.scheduler/queue"
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"
PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"
LABELS: Final = (QUEUE_LABEL, PREEMPTIBILITY, PREEMPTION_DELAY)
GPU: Final = "gpu"
RESOURCES: Final = (GPU, "cpu", "memory")
NON_PREEMPTIBLE_FROM: Final = 100
"""Pods with this or a higher priority are not preemptible, unless the pod or its group says otherwise."""
_UNITS: Final = {"memory": 10**6}
_PRIORITY: Final = 100
# Larger amounts count as UNLIMITED.
_MOST: Final = 2**63


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one resource; UNLIMITED if there is no bound."""

    quota: float = 0.0
    limit: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class KaiQueue:
    name: str
    parent: str
    priority: int
    quotas: Mapping[str, Quota]
    created: str
    preempt_min_runtime: float | None
    """The seconds that a pod runs before pods of the same queue may preempt it; None: as the parent says."""
    reclaim_min_runtime: float | None
    """The seconds that a pod runs before pods of other queues may evict it; None: as the parent says."""


def read(document: Object) -> KaiQueue:
    spec, metadata = mapping(document.get("spec")), document["metadata"]
    resources = mapping(spec.get("resources"))
    priority = spec.get("priority")
    return KaiQueue(
        metadata["name"],
        text(spec.get("parentQueue")),
        bounded(priority, INT32_MIN, INT32_MAX) if priority is not None else _PRIORITY,
        {name: _quota(name, mapping(resources.get(name))) for name in RESOURCES},
        text(metadata.get("creationTimestamp")),
        seconds(spec.get("preemptMinRuntime")),
        seconds(spec.get("reclaimMinRuntime")),
    )


def _quota(resource: str, document: Object) -> Quota:
    unit = _UNITS.get(resource, 1)
    return Quota(
        _amount(document.get("quota"), unit),
        _amount(document.get("limit"), unit),
        _weight(document.get("overQuotaWeight")),
    )


def _weight(value: Any) -> float:
    found = _amount(value, 1)
    return found if found != UNLIMITED else float(_MOST) if value > 0 else 0.0


def _amount(value: Any, unit: int) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return 0.0
    return float(value) * unit if 0 <= value < _MOST else UNLIMITED


def seconds(duration: Any) -> float | None:
    """Reads a duration such as 1h30m; returns None if it is invalid."""
    if not isinstance(duration, str) or not duration:
        return None
    try:
        return parse_duration(duration).nanos / 10**9
    except EvaluationError:
        return None
