"""The status of a Deployment: the sums over its ReplicaSets, and whether its roll-out makes progress.

Progress is any change for the better: a pod of the newest revision more, an old one fewer, one more ready or available.
A roll-out without any for `progressDeadlineSeconds` has timed out; it goes on all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of, spec_of, status_of
from dray.api.times import after
from dray.client.clock import moment, timestamp
from dray.controllers.deployments import conditions
from dray.controllers.deployments.conditions import AVAILABLE, PROGRESSING, REPLICA_FAILURE, condition
from dray.controllers.deployments.rolling import Bounds, counted, size

_NO_DEADLINE: Final = 2**31 - 1
_MINIMUM = (
    ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
)


def deadline_of(deployment: Object) -> int | None:
    seconds = spec_of(deployment).get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _NO_DEADLINE else int(seconds)


def observed(deployment: Object, replica_sets: Sequence[Object], new: Object | None, now: datetime) -> Object:
    """Returns the status with current sums and the Available condition; other members stay as they were."""
    before = status_of(deployment)
    total, available = counted(replica_sets, "replicas"), counted(replica_sets, "availableReplicas")
    numbers = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total,
        "updatedReplicas": counted([new], "replicas") if new is not None else 0,
        "readyReplicas": counted(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total - available),
    }
    found: Object = {name: number for name, number in numbers.items() if number}
    found["terminatingReplicas"] = counted(replica_sets, "terminatingReplicas")
    if before.get("collisionCount") is not None:
        found["collisionCount"] = before["collisionCount"]
    enough = available >= Bounds.of(deployment).fewest_available
    minimum = condition(AVAILABLE, *_MINIMUM[enough], timestamp(now))
    found["conditions"] = conditions.put(before.get("conditions") or [], minimum)
    return found


def rolled_out(deployment: Object, replica_sets: Sequence[Object], new: Object | None, now: datetime) -> Object:
    """Returns the observed status with the progress of a roll-out and the reason of failed pod creations."""
    found = observed(deployment, replica_sets, new, now)
    listed, deadline = found["conditions"], deadline_of(deployment)
    if deadline is None:
        listed = conditions.without(listed, PROGRESSING)
    else:
        listed = _with_progress(deployment, {**found, "conditions": listed}, new, now)
    listed = conditions.without(listed, REPLICA_FAILURE)
    failing = [new, *replica_sets] if new is not None else replica_sets
    failure = next((each for one in failing if (each := condition_of(one, REPLICA_FAILURE)) is not None), None)
    if failure is not None:
        told = (REPLICA_FAILURE, failure["status"], failure.get("reason", ""), failure.get("message", ""))
        made = condition(*told, timestamp(now))
        made["lastUpdateTime"] = made["lastTransitionTime"] = failure.get("lastTransitionTime") or timestamp(now)
        listed = [*listed, made]
    return {**found, "conditions": listed}


def _with_progress(deployment: Object, found: Object, new: Object | None, now: datetime) -> list[Object]:
    listed: list[Object] = found["conditions"]
    present = conditions.find(status_of(deployment).get("conditions") or [], PROGRESSING)
    is_over = present is not None and present.get("reason") == conditions.NEW_SET_AVAILABLE
    if is_over and found.get("replicas") == found.get("updatedReplicas"):
        return listed
    kind, name = ("ReplicaSet", new["metadata"]["name"]) if new else ("Deployment", deployment["metadata"]["name"])
    at = timestamp(now)
    if is_complete(deployment, found):
        told = f'{kind} "{name}" has successfully progressed.'
        return conditions.put(listed, condition(PROGRESSING, "True", conditions.NEW_SET_AVAILABLE, told, at))
    if _is_progressing(status_of(deployment), found):
        made = condition(PROGRESSING, "True", conditions.SET_UPDATED, f'{kind} "{name}" is progressing.', at)
        if present is not None and present.get("status") == "True":
            made["lastTransitionTime"] = present.get("lastTransitionTime") or at
        # Also where only the time is new: from then on the deadline counts.
        return [*conditions.without(listed, PROGRESSING), made]
    if _is_timed_out(deployment, now):
        told = f'{kind} "{name}" has timed out progressing.'
        return conditions.put(listed, condition(PROGRESSING, "False", conditions.TIMED_OUT, told, at))
    return listed


def is_complete(deployment: Object, status: Object) -> bool:
    """Returns True if the status is current and all pods are updated and available, with no pods of older revisions."""
    wanted = size(deployment)
    numbers = [status.get(name) or 0 for name in ("updatedReplicas", "replicas", "availableReplicas")]
    generation = deployment["metadata"].get("generation") or 0
    return numbers == [wanted] * 3 and (status.get("observedGeneration") or 0) >= generation


def _is_progressing(before: Object, found: Object) -> bool:
    def grown(name: str) -> bool:
        return bool((found.get(name) or 0) > (before.get(name) or 0))

    return _old(found) < _old(before) or any(map(grown, ("updatedReplicas", "readyReplicas", "availableReplicas")))


def _old(status: Object) -> int:
    return int(status.get("replicas") or 0) - int(status.get("updatedReplicas") or 0)


def _is_timed_out(deployment: Object, now: datetime) -> bool:
    present = condition_of(deployment, PROGRESSING)
    if present is None or present.get("reason") == conditions.NEW_SET_AVAILABLE:
        return False
    return present.get("reason") == conditions.TIMED_OUT or _deadline_at(deployment, present, now) < now


def until_deadline(deployment: Object, now: datetime) -> float | None:
    """Seconds until a roll-out that makes no progress has timed out; None where nothing is to be waited for."""
    present = condition_of(deployment, PROGRESSING)
    if deadline_of(deployment) is None or present is None or is_complete(deployment, status_of(deployment)):
        return None
    if present.get("reason") in (conditions.TIMED_OUT, conditions.NEW_SET_AVAILABLE):
        return None
    # A second later it is over for certain.
    return max(0.0, (_deadline_at(deployment, present, now) - now).total_seconds()) + 1.0


def _deadline_at(deployment: Object, progress: Object, now: datetime) -> datetime:
    since = progress.get("lastUpdateTime") or progress.get("lastTransitionTime") or timestamp(now)
    return after(moment(since), deadline_of(deployment) or 0)
