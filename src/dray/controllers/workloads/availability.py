"""Availability of pods: ready, and for as long as their owner asks in `minReadySeconds`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from dray.api.objects import Object, condition_of
from dray.api.times import after
from dray.client.clock import moment


def available_at(pod: Object, min_ready: int) -> datetime | None:
    """Returns when a ready pod becomes available; None if it is not ready."""
    condition = condition_of(pod, "Ready", "True")
    if condition is None:
        return None
    since = condition.get("lastTransitionTime")
    # A pod whose condition does not say since when it is ready never counts as ready for long enough.
    return after(moment(since), min_ready) if since else None


def is_available(pod: Object, min_ready: int, now: datetime) -> bool:
    if not min_ready:
        return condition_of(pod, "Ready", "True") is not None
    found = available_at(pod, min_ready)
    return found is not None and found <= now


def until_available(pods: Iterable[Object], min_ready: int, now: datetime) -> float | None:
    """Seconds until the next of the pods becomes available; None if none of them is about to."""
    if not min_ready:
        return None
    times = (found for pod in pods if (found := available_at(pod, min_ready)) is not None and found > now)
    first = min(times, default=None)
    return (first - now).total_seconds() if first is not None else None
