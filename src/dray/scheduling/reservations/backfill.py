"""EASY backfill: the first of those that wait has a reservation, and others may start around it.

Its shadow time is when, by the known ends of what runs, there is room for it; `extra` is what it leaves over then.
Another may start where it fits now and either ends by the shadow time or takes no more than the extra. Ends are known
from `activeDeadlineSeconds`, and from labels that say for how long a pod runs at most; where they are not, nothing ends
in time and only the extra is left.
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

# Their controllers replace what ends.
_ENDLESS: Final = ("DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet")


def run_time(pod: Pod) -> float:
    """Returns how long the pod runs at most, in seconds; inf if that is not known."""
    deadline, labels = spec_of(pod.document).get("activeDeadlineSeconds"), pod.labels
    known = [bounded(deadline, 0, INT32_MAX)] if deadline is not None else []
    said = [labels.get(each, "") for each in RUN_TIME_LABELS]
    known += [int(each) for each in said if each.isdecimal() and len(each) <= len(str(INT32_MAX))]
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
    """Returns, of so many things that end one after the other, the fewest that must have ended until `fits`; None where
    it does not when all have."""
    if not fits(number):
        return None
    return bisect_left(range(number), True, key=fits)


def shadow_of(ends_in_order: Sequence[float], position: int, now: float) -> float:
    """The time by which so many of them have ended."""
    return ends_in_order[position - 1] if position else now


def may_start(end: float, shadow: float, *, size: int, extra: int) -> bool:
    """Whether a pod that fits now may start."""
    return end <= shadow < inf or size <= extra
