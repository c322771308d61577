"""Readers for pods of a Job: tracking, completion index, failure counts, end."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from dray.api.objects import (
    Object,
    annotations_of,
    condition_of,
    controller_of,
    finalizers_of,
    int64,
    is_deleting,
    is_true,
    mapping,
    status_of,
)
from dray.api.pods import is_terminal, node_of, phase_of
from dray.api.times import after
from dray.client.clock import moment

TRACKING: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def job_of(pod: Object) -> Object | None:
    """The reference to the Job that controls the pod."""
    found = controller_of(pod)
    if found is None or found.get("kind") != "Job" or not found.get("apiVersion", "").startswith("batch/"):
        return None
    return found


def is_tracked(pod: Object) -> bool:
    """Whether the pod is still to be counted."""
    return TRACKING in finalizers_of(pod)


def is_active(pod: Object) -> bool:
    return not is_terminal(pod) and not is_deleting(pod)


def is_ready(pod: Object) -> bool:
    return is_true(pod, "Ready")


def completion_index(pod: Object) -> int | None:
    text = annotations_of(pod).get(COMPLETION_INDEX, "")
    return int64(text) if text.isdecimal() else None


def failure_count(pod: Object) -> int:
    """How often the pod's index had failed before it."""
    return _annotated_number(pod, FAILURE_COUNT)


def ignored_failure_count(pod: Object) -> int:
    """The same for failures that the pod failure policy does not count."""
    return _annotated_number(pod, IGNORED_FAILURE_COUNT)


def _annotated_number(pod: Object, name: str) -> int:
    text = annotations_of(pod).get(name, "")
    return max(0, int64(text) or 0)


def restarts(pod: Object) -> int:
    return sum(int(status.get("restartCount") or 0) for status in container_statuses(pod))


def container_statuses(pod: Object) -> list[Object]:
    status = status_of(pod)
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def finish_time(pod: Object) -> datetime:
    """When the pod ended, by the best witness there is."""
    ended = [
        moment(terminated["finishedAt"])
        for status in container_statuses(pod)
        if (terminated := mapping(status.get("state")).get("terminated")) and terminated.get("finishedAt")
    ]
    if ended:
        return max(ended)
    ready = condition_of(pod, "Ready")
    if ready and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return moment(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return after(moment(metadata["deletionTimestamp"]), -(metadata.get("deletionGracePeriodSeconds") or 0))
    return moment(metadata["creationTimestamp"])


def removal_order(pod: Object) -> tuple[Any, ...]:
    """Sorts first what is lost least by deleting it: unplaced, pending, unready, restarted, young pods."""
    ready = condition_of(pod, "Ready") or {}
    is_up = ready.get("status") == "True"
    return (
        bool(node_of(pod)),
        _PHASES.get(phase_of(pod), 0),
        is_up,
        _later_first(ready.get("lastTransitionTime") if is_up else None),
        -restarts(pod),
        _later_first(pod["metadata"].get("creationTimestamp")),
    )


def _later_first(text: str | None) -> float:
    return -moment(text).timestamp() if text else 0.0
