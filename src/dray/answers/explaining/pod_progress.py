"""What a pod waits for, and how it ended, in a line each; from its status alone."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object, condition_of, mapping, mappings, metadata_of, status_of
from dray.api.pods import is_terminal, node_of, phase_of

_REFUSALS: Final = ("Unschedulable", "SchedulerError")
_FAILED: Final = 1
# What waiting does not mend.
_FATAL: Final = ("RunContainerError", "CreateContainerConfigError", "InvalidImageName", "ErrImageNeverPull")


def _state(pod: Object, kind: str) -> Object | None:
    for each in mappings(status_of(pod).get("containerStatuses")):
        if kind in mapping(each.get("state")):
            return mapping(each["state"][kind])
    return None


def has_started(pod: Object) -> bool:
    """Its command runs, or ran; or it never will."""
    return _state(pod, "running") is not None or _state(pod, "terminated") is not None or is_terminal(pod)


def cannot_start(pod: Object) -> bool:
    """Its command, image or configuration is wrong."""
    return (_state(pod, "waiting") or {}).get("reason") in _FATAL


def is_unschedulable(pod: Object) -> bool:
    """Returns True if the scheduler has tried the pod and found no node, or met an error such as a bad selector."""
    return (condition_of(pod, "PodScheduled", "False") or {}).get("reason") in _REFUSALS


def waits_for(pod: Object, warning: str = "") -> str:
    """`warning` is the last event about it, which tells more than the status of its container."""
    if node := node_of(pod):
        waiting = _state(pod, "waiting") or {}
        detail = warning or waiting.get("message") or waiting.get("reason") or "not started yet"
        return f"on node {node}: {detail}"
    message = (condition_of(pod, "PodScheduled", "False") or {}).get("message")
    return f"waiting: {message}" if message else "waiting for the scheduler"


def exit_status(pod: Object) -> int:
    """That of its command; 1 where it never ran."""
    ended = _state(pod, "terminated")
    if ended is not None:
        return int(ended.get("exitCode", _FAILED))
    return 0 if phase_of(pod) == "Succeeded" else _FAILED


def misfortune(pod: Object) -> str:
    """Why it ended other than by its own command; empty where it did not."""
    status, ended = status_of(pod), _state(pod, "terminated")
    if ended is not None and ended.get("reason") in ("OOMKilled", "ContainerCannotRun", "StartError"):
        return ": ".join(filter(None, (ended["reason"], ended.get("message"))))
    if status.get("reason"):
        return ": ".join(filter(None, (status["reason"], status.get("message"))))
    disruption = condition_of(pod, "DisruptionTarget", "True")
    if disruption is not None:
        return str(disruption.get("message") or disruption.get("reason"))
    return "it was deleted" if metadata_of(pod).get("deletionTimestamp") else ""
