"""What a pod of a Job says about itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from dray.api.objects import (
    Object,
    annotations_of,
    conditions_of,
    finalizers_of,
    int64,
    is_deleting,
    owners_of,
    spec_of,
    status_of,
)
from dray.api.times import after
from dray.client.clock import moment

TRACKING: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def owner(pod: Object) -> Object | None:
    """The reference to the Job that controls the pod."""
    for reference in owners_of(pod):
        if reference.get("controller"):
            is_job = reference.get("kind") == "Job" and reference.get("apiVersion", "").startswith("batch/")
            return reference if is_job else None
    return None


def is_controlled(pod: Object) -> bool:
    """By a Job or by somebody else."""
    return any(reference.get("controller") for reference in owners_of(pod))


def uid(pod: Object) -> str:
    return str(pod["metadata"].get("uid") or "")


def phase(pod: Object) -> str:
    return str(status_of(pod).get("phase") or "")


def is_tracked(pod: Object) -> bool:
    """Whether the pod is still to be counted."""
    return TRACKING in finalizers_of(pod)


def is_terminal(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_leaving(pod: Object) -> bool:
    return is_deleting(pod)


def is_active(pod: Object) -> bool:
    return not is_terminal(pod) and not is_leaving(pod)


def is_ready(pod: Object) -> bool:
    return (_ready(pod) or {}).get("status") == "True"


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
        if (terminated := (status.get("state") or {}).get("terminated")) and terminated.get("finishedAt")
    ]
    if ended:
        return max(ended)
    ready = _ready(pod)
    if ready and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return moment(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return after(moment(metadata["deletionTimestamp"]), -(metadata.get("deletionGracePeriodSeconds") or 0))
    return moment(metadata["creationTimestamp"])


def removal_order(pod: Object) -> tuple[Any, ...]:
    """Sorts first what is lost least by deleting it: unplaced, pending, unready, restarted, young pods."""
    ready = _ready(pod) or {}
    is_up = ready.get("status") == "True"
    return (
        bool(spec_of(pod).get("nodeName")),
        _PHASES.get(phase(pod), 0),
        is_up,
        _later_first(ready.get("lastTransitionTime") if is_up else None),
        -restarts(pod),
        _later_first(pod["metadata"].get("creationTimestamp")),
    )


def _later_first(text: str | None) -> float:
    return -moment(text).timestamp() if text else 0.0


def _ready(pod: Object) -> Object | None:
    for condition in conditions_of(pod):
        if condition.get("type") == "Ready":
            return dict(condition)
    return None
