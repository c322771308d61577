"""Why containers of a pod do not run, from the pod's status: what `dray explain` says of a pod that has a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.objects import Object, mapping, mappings, status_of, text

_ORDINARY: Final = ("", "ContainerCreating", "PodInitializing")
"""Reasons of containers that wait, but do not fail."""


@dataclass(frozen=True, slots=True)
class Failure:
    container: str
    reason: str
    """The reason in the words of Kubernetes, for example CrashLoopBackOff."""
    detail: str
    ran: bool
    """Whether the container ran at some time, so that it has a log."""
    previous: bool
    """Whether the log is that of its previous run."""

    @property
    def words(self) -> str:
        return f"container {self.container}: {': '.join(filter(None, (self.reason, self.detail)))}"


def failure_of(pod: Object) -> Failure | None:
    """Returns the first container of the pod that fails; None if none does."""
    status = status_of(pod)
    for each in (*mappings(status.get("initContainerStatuses")), *mappings(status.get("containerStatuses"))):
        if (found := _failure(each)) is not None:
            return found
    return None


def _failure(status: Object) -> Failure | None:
    state, before = mapping(status.get("state")), mapping(mapping(status.get("lastState")).get("terminated"))
    waiting, ended = mapping(state.get("waiting")), mapping(state.get("terminated"))
    name, reason = text(status.get("name")), text(waiting.get("reason"))
    if reason not in _ORDINARY:
        detail = _ended(before) if before else text(waiting.get("message"))
        return Failure(name, reason, detail, ran=bool(before), previous=True)
    if ended and ended.get("exitCode"):
        return Failure(name, text(ended.get("reason")), _ended(ended), ran=True, previous=False)
    return None


def _ended(terminated: Object) -> str:
    """How a run ended: the message of whoever ended it, or the exit code."""
    return text(terminated.get("message")).strip() or f"exit code {terminated.get('exitCode', 0)}"
