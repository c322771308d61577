"""Tolerations of NoExecute taints: how long a pod stays on a tainted node. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dray.api.objects import Object, condition_of, spec_of
from dray.api.times import after
from dray.client.clock import moment
from dray.scheduling.tolerations import tolerates


@dataclass(frozen=True, slots=True)
class Expulsion:
    """A taint that drives pods out, and since when it is there."""

    taint: Object
    since: datetime


def deadline(pod: Object, expulsions: Iterable[Expulsion], now: datetime) -> datetime | None:
    """When the pod has to go; None for never. A taint that was there before the pod counts from its binding on.

    Of several tolerations that match a taint the first one counts.
    """
    tolerations = spec_of(pod).get("tolerations") or ()
    bound = _bound(pod)
    ends: list[datetime] = []
    for expulsion in expulsions:
        toleration = next((each for each in tolerations if tolerates(each, expulsion.taint)), None)
        if toleration is None:
            ends.append(min(expulsion.since, now))
        elif (seconds := toleration.get("tolerationSeconds")) is not None:
            since = expulsion.since if bound is None else max(expulsion.since, bound)
            ends.append(after(since, max(seconds, 0)))
    return min(ends, default=None)


def _bound(pod: Object) -> datetime | None:
    condition = condition_of(pod, "PodScheduled", "True")
    return _moment(condition.get("lastTransitionTime") if condition else pod["metadata"].get("creationTimestamp"))


def _moment(text: str | None) -> datetime | None:
    try:
        return moment(text) if text else None
    except ValueError:
        return None
