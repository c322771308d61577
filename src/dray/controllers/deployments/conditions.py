"""The conditions of a Deployment: how one is set, and the reasons that they give."""

from __future__ import annotations

from typing import Final

from dray.api.objects import Object

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

NEW_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
NEW_SET_CREATED: Final = "NewReplicaSetCreated"
NEW_SET_FOUND: Final = "FoundNewReplicaSet"
SET_UPDATED: Final = "ReplicaSetUpdated"
SET_CREATE_ERROR: Final = "ReplicaSetCreateError"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"


def condition(kind: str, value: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": value,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def find(conditions: list[Object], kind: str) -> Object | None:
    return next((entry for entry in conditions if entry.get("type") == kind), None)


def put(conditions: list[Object], new: Object) -> list[Object]:
    """Adds or replaces a condition. Keeps the transition time if only the reason differs."""
    present = find(conditions, new["type"])
    if present is not None and present.get("status") == new["status"]:
        if present.get("reason") == new["reason"]:
            return conditions
        new = {**new, "lastTransitionTime": present.get("lastTransitionTime") or new["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def without(conditions: list[Object], kind: str) -> list[Object]:
    return [entry for entry in conditions if entry.get("type") != kind]
