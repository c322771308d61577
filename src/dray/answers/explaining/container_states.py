"""Why containers of a pod do not run, read from the status of the pod; `dray explain` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, mapping, mappings, status_of, text

_ORDINARY: Final = ("", "ContainerCreating", "PodInitializing")
"""Reasons of containers that wait and do not fail."""


@dataclass(frozen=True, slots=True)
class Failure:
    container: str
    reason: str
    """The reason in the words of Kubernetes, for example CrashLoopBackOff."""
    detail: str
    ran: bool
    """True if the container ran at some time, so that it has a log."""
    previous: bool
    """True if the log is that of the previous run."""

    @property
    def text(self) -> str:
        """The container and why it fails, in one line."""
        return f"container {self.container}: {': '.join(filter(None, (self.reason, self.detail)))}"


def failure_of(pod: Object) -> Failure | None:
    """Returns the failure of the first container that fails; None if no container fails."""
    status = status_of(pod)
    for member in ("initContainerStatuses", "containerStatuses"):
        for container_status in mappings(status.get(member)):
            if (failure := _failure(container_status)) is not None:
                return failure
    return None


def _failure(status: Object) -> Failure | None:
    state, before = mapping(status.get("state")), mapping(mapping(status.get("lastState")).get("terminated"))
    waiting, ended = mapping(state.get("waiting")), mapping(state.get("terminated"))
    name, reason = text(status.get("name")), text(waiting.get("reason"))
    if reason not in _ORDINARY:
        detail = _end_text(before) if before else text(waiting.get("message"))
        return Failure(name, reason, detail, ran=bool(before), previous=True)
    if ended and ended.get("exitCode"):
        return Failure(name, text(ended.get("reason")), _end_text(ended), ran=True, previous=False)
    return None


def _end_text(terminated: Object) -> str:
    """Returns the message with which a run ended, or its exit code."""
    return text(terminated.get("message")).strip() or f"exit code {terminated.get('exitCode', 0)}"
