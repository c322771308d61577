"""The conditions of a Job."""

from __future__ import annotations

from dray.api.objects import Object, condition_of

COMPLETE = "Complete"
FAILED = "Failed"
SUSPENDED = "Suspended"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"


def end(job: Object) -> Object | None:
    """Returns the condition that marks the Job as finished; None if it is not."""
    return condition_of(job, COMPLETE, "True") or condition_of(job, FAILED, "True")


def put(status: Object, kind: str, holds: bool, reason: str, message: str, now: str) -> bool:
    """Sets a condition in a status; returns whether it changed. A condition that never held is not added as False."""
    value = "True" if holds else "False"
    conditions = list(status.get("conditions") or ())
    place = next((at for at, each in enumerate(conditions) if each.get("type") == kind), None)
    if place is None and not holds:
        return False
    if place is not None and (conditions[place].get("status"), conditions[place].get("reason")) == (value, reason):
        return False
    condition = {
        "type": kind,
        "status": value,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    if place is None:
        conditions.append(condition)
    else:
        conditions[place] = condition
    status["conditions"] = conditions
    return True
