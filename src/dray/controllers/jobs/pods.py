"""Readers for pods of a Job: tracking, completion index, failure counts, end."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.objects import (
    Object,
    annotations_of,
    condition_of,
    controller_of,
    finalizers_of,
    int64,
    mapping,
)
from dray.api.pods import container_statuses
from dray.api.times import after
from dray.client.clock import moment

_BY_KUBELET: Final = "TerminationByKubelet"
_BY_SCHEDULER: Final = frozenset({"PreemptionByScheduler", "ClusterQueueStopped", "LocalQueueStopped"})

TRACKING: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def job_of(pod: Object) -> Object | None:
    """Returns the reference to the controlling Job; None if there is none."""
    found = controller_of(pod)
    if found is None or found.get("kind") != "Job" or not found.get("apiVersion", "").startswith("batch/"):
        return None
    return found


def is_tracked(pod: Object) -> bool:
    """Whether the pod is still to be counted."""
    return TRACKING in finalizers_of(pod)


def completion_index(pod: Object) -> int | None:
    text = annotations_of(pod).get(COMPLETION_INDEX, "")
    return int64(text) if text.isdecimal() else None


def failure_count(pod: Object) -> int:
    """Returns how often the pod's index had failed before this pod."""
    return _annotated_number(pod, FAILURE_COUNT)


def ignored_failure_count(pod: Object) -> int:
    """Returns the failures of the index that the pod failure policy ignores."""
    return _annotated_number(pod, IGNORED_FAILURE_COUNT)


def is_disrupted(pod: Object) -> bool:
    """Whether the pod was removed by somebody else: the scheduler, a taint, an eviction, the loss of its node.

    Not by its own node, which may have done so because of what the pod used.
    """
    reason = _disruption(pod)
    return bool(reason) and reason != _BY_KUBELET


def is_preempted(pod: Object) -> bool:
    """Whether the scheduler evicted the pod, for another pod or because its queue is stopped."""
    return _disruption(pod) in _BY_SCHEDULER


def _disruption(pod: Object) -> str:
    return str((condition_of(pod, "DisruptionTarget", "True") or {}).get("reason") or "")


def _annotated_number(pod: Object, name: str) -> int:
    text = annotations_of(pod).get(name, "")
    return max(0, int64(text) or 0)


def finish_time(pod: Object) -> datetime:
    """Returns when the pod ended: from its containers, else the Ready condition, the deletion, or the creation."""
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
