"""The status of a disruption budget, from its pods and the number of pods there should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dray.api.int_or_percent import scaled
from dray.api.objects import Object, conditions_of, is_deleting, is_true, mapping, status_of
from dray.api.times import after
from dray.client.clock import moment, timestamp

DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
# How long an eviction that was granted may take to be seen; then the pod counts again.
DELETION_TIMEOUT: Final = 120.0


def needs_scale(budget: Object) -> bool:
    """Whether the budget depends on how many pods there should be, and not only on those there are."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired(budget: Object, expected: int) -> int:
    """Returns how many pods must be healthy."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return max(0, expected - scaled(spec["maxUnavailable"], expected))
    return scaled(spec.get("minAvailable") or 0, expected)


@dataclass(frozen=True, slots=True)
class Disrupted:
    """Pods with a granted eviction whose deletion was not observed yet."""

    pods: dict[str, str]
    # Evictions that were granted and did not happen.
    overdue: list[Object]
    # When the next of them will be overdue.
    until: datetime | None


def disrupted(budget: Object, pods: Iterable[Object], now: datetime) -> Disrupted:
    granted = mapping(status_of(budget).get("disruptedPods"))
    waiting: dict[str, str] = {}
    overdue = []
    for pod in pods:
        name = pod["metadata"]["name"]
        if name not in granted or is_deleting(pod):
            continue
        if after(moment(granted[name]), DELETION_TIMEOUT) > now:
            waiting[name] = granted[name]
        else:
            overdue.append(pod)
    until = min((after(moment(since), DELETION_TIMEOUT) for since in waiting.values()), default=None)
    return Disrupted(waiting, overdue, until)


def healthy(pods: Iterable[Object], waiting: dict[str, str]) -> int:
    return sum(
        is_true(pod, "Ready") and not is_deleting(pod) and pod["metadata"]["name"] not in waiting for pod in pods
    )


def status(budget: Object, pods: list[Object], expected: int, waiting: dict[str, str], now: datetime) -> Object:
    wanted, current = desired(budget, expected), healthy(pods, waiting)
    allowed = max(0, current - wanted) if expected > 0 else 0
    found: Object = {
        "currentHealthy": current,
        "desiredHealthy": wanted,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation") or 0,
    }
    if waiting:
        found["disruptedPods"] = waiting
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _with_condition(found, budget, bool(allowed), reason, "", now)


def failed(budget: Object, message: str, now: datetime) -> Object:
    """Returns a status that allows no evictions, because the expected number of pods is unknown."""
    numbers = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 0)
    found = {**numbers, **status_of(budget), "disruptionsAllowed": 0}
    found["observedGeneration"] = budget["metadata"].get("generation") or 0
    return _with_condition(found, budget, False, "SyncFailed", message, now)


def _with_condition(found: Object, budget: Object, holds: bool, reason: str, message: str, now: datetime) -> Object:
    condition: Object = {
        "type": DISRUPTION_ALLOWED,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": budget["metadata"].get("generation") or 0,
        "lastTransitionTime": timestamp(now),
    }
    conditions = []
    for present in conditions_of(budget):
        if present.get("type") != DISRUPTION_ALLOWED:
            conditions.append(present)
        elif present.get("status") == condition["status"]:
            condition["lastTransitionTime"] = present.get("lastTransitionTime") or condition["lastTransitionTime"]
    return {**found, "conditions": [*conditions, condition]}
