"""What there is to tell about a Job or a pod: it succeeded, it failed, or it waits for too long. Pure.

A notification has names, times, a reason and an exit code. What users write into objects (commands, environment,
annotations) and what their programs print is not part of it: it may be secret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dray.api.objects import Object, condition_of, controller_of, is_deleting, key_of, mapping, metadata_of, uid_of
from dray.api.objects import status_of as status
from dray.api.pods import container_statuses, is_terminal, node_of, phase_of

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
WAITING: Final = "Waiting"
_LONGEST_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    event: str
    kind: str
    namespace: str
    name: str
    uid: str
    reason: str = ""
    message: str = ""
    pod: str = ""
    """Name of the waiting pod, in notifications about a Job."""
    node: str = ""
    exit_code: int | None = None
    created: str = ""
    ended: str = ""

    def document(self) -> Object:
        made = {
            "event": self.event,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "reason": self.reason,
            "message": self.message[:_LONGEST_MESSAGE],
            "pod": self.pod,
            "node": self.node,
            "exitCode": self.exit_code,
            "created": self.created,
            "ended": self.ended,
        }
        return {name: value for name, value in made.items() if value not in (None, "")}


def job_ended(job: Object) -> Notification | None:
    for type_, event in (("Complete", SUCCEEDED), ("Failed", FAILED)):
        condition = condition_of(job, type_, "True")
        if condition is not None:
            return replace(
                _about(job, "Job", event),
                reason=str(condition.get("reason") or ""),
                message=str(condition.get("message") or ""),
                ended=str(condition.get("lastTransitionTime") or ""),
            )
    return None


def pod_ended(pod: Object) -> Notification | None:
    """Returns None for a pod that has not ended, or that has a controller."""
    if not is_terminal(pod) or controller_of(pod) is not None:
        return None
    ends = [
        mapping(mapping(container_status.get("state")).get("terminated"))
        for container_status in container_statuses(pod)
    ]
    worst = max(ends, key=lambda end: bool(end.get("exitCode")), default={})
    code = worst.get("exitCode")
    return replace(
        _about(pod, "Pod", phase_of(pod)),
        reason=str(status(pod).get("reason") or worst.get("reason") or ""),
        node=node_of(pod),
        exit_code=code if isinstance(code, int) else None,
        ended=max((str(terminated.get("finishedAt") or "") for terminated in ends), default=""),
    )


def waits(pod: Object) -> bool:
    """Returns True for a pod without a node, if it has no controller or belongs to a Job."""
    owner = controller_of(pod)
    is_ours = owner is None or owner.get("kind") == "Job"
    return is_ours and not (node_of(pod) or is_terminal(pod) or is_deleting(pod))


def pod_waiting(pod: Object) -> Notification:
    """Returns a notification about the pod, or about its Job if it has one: a Job with many pods is told once."""
    condition = condition_of(pod, "PodScheduled", "False") or {}
    made = replace(
        _about(pod, "Pod", WAITING),
        reason=str(condition.get("reason") or ""),
        message=str(condition.get("message") or ""),
    )
    owner = controller_of(pod)
    if owner is None:
        return made
    return replace(made, kind="Job", name=str(owner["name"]), uid=str(owner["uid"]), pod=made.name)


def _about(obj: Object, kind: str, event: str) -> Notification:
    namespace, name = key_of(obj)
    created = str(metadata_of(obj).get("creationTimestamp") or "")
    return Notification(event=event, kind=kind, namespace=namespace, name=name, uid=uid_of(obj), created=created)
