"""What a pod waits for, and how it ended, read from the status of the pod alone."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, condition_of, mapping, mappings, metadata_of, status_of
from dray.api.pods import is_terminal, node_of, phase_of

_REFUSALS: Final = ("Unschedulable", "SchedulerError")
_FAILED: Final = 1
# Reasons that do not go away with time.
_FATAL: Final = ("RunContainerError", "CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull")


def _state(pod: Object, kind: str) -> Object | None:
    """Returns the first container state of this kind: waiting, running or terminated."""
    for container_status in mappings(status_of(pod).get("containerStatuses")):
        if kind in mapping(container_status.get("state")):
            return mapping(container_status["state"][kind])
    return None


def has_started(pod: Object) -> bool:
    """Returns True if the command of the pod runs or has run, or if the pod has ended."""
    return _state(pod, "running") is not None or _state(pod, "terminated") is not None or is_terminal(pod)


def cannot_start(pod: Object) -> bool:
    """Returns True if the command, image or configuration of the pod is wrong."""
    return (_state(pod, "waiting") or {}).get("reason") in _FATAL


def is_unschedulable(pod: Object) -> bool:
    """Returns True if the scheduler has tried the pod and found no node, or met an error such as a bad selector."""
    return (condition_of(pod, "PodScheduled", "False") or {}).get("reason") in _REFUSALS


def waits_for(pod: Object, warning: str = "") -> str:
    """Returns what the pod waits for. `warning` is the last event about it, which says more than its status."""
    if node := node_of(pod):
        waiting = _state(pod, "waiting") or {}
        detail = warning or waiting.get("message") or waiting.get("reason") or "not started yet"
        return f"on node {node}: {detail}"
    message = (condition_of(pod, "PodScheduled", "False") or {}).get("message")
    return f"waiting: {message}" if message else "waiting for the scheduler"


def exit_status(pod: Object) -> int:
    """Returns the exit status of the command; 1 if the command never ran."""
    ended = _state(pod, "terminated")
    if ended is not None:
        return int(ended.get("exitCode", _FAILED))
    return 0 if phase_of(pod) == "Succeeded" else _FAILED


def termination_cause(pod: Object) -> str:
    """Returns why something else than its own command ended the pod; empty if nothing did."""
    status, ended = status_of(pod), _state(pod, "terminated")
    if ended is not None and ended.get("reason") in ("OOMKilled", "ContainerCannotRun", "StartError"):
        return ": ".join(filter(None, (ended["reason"], ended.get("message"))))
    if status.get("reason"):
        return ": ".join(filter(None, (status["reason"], status.get("message"))))
    disruption = condition_of(pod, "DisruptionTarget", "True")
    if disruption is not None:
        return str(disruption.get("message") or disruption.get("reason"))
    return "it was deleted" if metadata_of(pod).get("deletionTimestamp") else ""
