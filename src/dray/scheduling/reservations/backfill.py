"""EASY backfill: the first waiting group has a reservation, and other pods may start if they do not delay it.

The shadow time is the time when the group will fit, by the known ends of running pods; `extra` is what it leaves over
then. Another pod may start if it fits now and either ends by the shadow time or takes no more than the extra. Ends are
known from `activeDeadlineSeconds`, and from labels that limit how long a pod runs. If ends are not known, only the
extra can be used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from dray.api.objects import bounded, controller_of, is_deleting, spec_of, status_of
from dray.api.quantity import INT32_MAX
from dray.api.times import seconds_of
from dray.scheduling.groups.front_ends import RUN_TIME_LABELS
from dray.scheduling.model.pod import Pod

# These controllers replace pods that end.
_ENDLESS: Final = ("DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet")


def run_time(pod: Pod) -> float:
    """Returns how long the pod runs at most, in seconds; inf if that is not known."""
    deadline, labels = spec_of(pod.document).get("activeDeadlineSeconds"), pod.labels
    known = [bounded(deadline, 0, INT32_MAX)] if deadline is not None else []
    values = [labels.get(label, "") for label in RUN_TIME_LABELS]
    known += [int(value) for value in values if value.isdecimal() and len(value) <= len(str(INT32_MAX))]
    return min(known, default=inf)


def end_of(pod: Pod, now: float) -> float:
    """Returns the time when a pod on a node has ended at the latest; inf if that is not known."""
    started = seconds_of(status_of(pod.document).get("startTime"))
    return max(now, (now if started is None else started) + run_time(pod))


def ends(pod: Pod) -> bool:
    """Whether the pod can be expected to end by itself."""
    if is_deleting(pod.document) or run_time(pod) < inf:
        return True
    controller = controller_of(pod.document)
    restarts = spec_of(pod.document).get("restartPolicy") in (None, "Always")
    return not restarts or controller is None or controller.get("kind") not in _ENDLESS


def earliest(number: int, fits: Callable[[int], bool]) -> int | None:
    """Returns the smallest number of ends, of `number` that follow each other, after which `fits` is true; None if it
    is false even after all."""
    if not fits(number):
        return None
    return bisect_left(range(number), True, key=fits)


def shadow_of(ends_in_order: Sequence[float], position: int, now: float) -> float:
    """Returns the time when the first `position` of them have ended."""
    return ends_in_order[position - 1] if position else now


def may_start(end: float, shadow: float, *, size: int, extra: int) -> bool:
    """Whether a pod that fits now may start."""
    return end <= shadow < inf or size <= extra
